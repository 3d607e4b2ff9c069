#include "runtime/alloc/graph_allocator.hpp"

#include <algorithm>
#include <bit>

#include "core/prefetch.hpp"
#include "runtime/placement.hpp"

using namespace heddle;

namespace {

/// Chunks are never asked to be larger, whatever a type says: sums of sizes stay countable.
constexpr std::size_t kLargestChunk = SIZE_MAX / 2;

/// Bytes to ask for. A chunk of nothing still gives its tensors an address.
std::size_t request_of(std::size_t chunk, std::size_t alignment) {
    return std::max(chunk, alignment);
}

Result<std::vector<OwnedBuffer>> allocate_chunks(BufferType& type,
                                                 std::span<const std::size_t> sizes,
                                                 std::size_t alignment) {
    std::vector<OwnedBuffer> chunks;
    for (const std::size_t size : sizes) {
        HEDDLE_TRY_ASSIGN(Buffer* const buffer, allocate(type, request_of(size, alignment)));
        chunks.push_back(OwnedBuffer(buffer));
        set_usage(*buffer, GGML_BACKEND_BUFFER_USAGE_COMPUTE);
    }
    return chunks;
}

/// Tensors that are getting memory. They lose it again unless all get theirs.
class Placed {
public:
    Placed() = default;
    Placed(const Placed&) = delete;
    Placed& operator=(const Placed&) = delete;
    ~Placed() {
        for (Tensor* tensor : tensors_) tensor->buffer = nullptr, tensor->data = nullptr;
    }

    void add(Tensor* tensor) { tensors_.push_back(tensor); }  ///< before it gets its memory
    void keep() { tensors_.clear(); }

private:
    std::vector<Tensor*> tensors_;
};

/// Gives a view the memory of its root, where that has some.
Result<> place_if_view(Tensor* tensor, Placed& placed) {
    if (tensor->buffer != nullptr) return ok();
    const Tensor& root = *tensor->view_src;
    // Without a buffer it was made outside; without data it is only there to ask questions with.
    if (root.buffer == nullptr || root.data == nullptr) return ok();
    placed.add(tensor);
    return place_view(*tensor);
}

/// Every view there is was met already, while lifetimes were found.
Result<> place_views(std::span<Tensor* const> views, Placed& placed) {
    for (std::size_t i = 0; i < views.size(); ++i) {
        if (i + kReadAhead < views.size()) {
            prefetch(views[i + kReadAhead]);
            prefetch_place(views[i + kReadAhead / 2]->view_src);
        }
        HEDDLE_TRY(place_if_view(views[i], placed));
    }
    return ok();
}

}  // namespace

Result<std::unique_ptr<ggml_gallocr>> ggml_gallocr::make(std::span<BufferType* const> types) {
    if (types.empty()) return invalid("graph allocator: no buffer type given");
    auto made = std::make_unique<ggml_gallocr>();
    for (std::size_t id = 0; id < types.size(); ++id) {
        BufferType* const type = types[id];
        if (type == nullptr) return invalid("graph allocator: buffer type ", id, " is NULL");
        const auto known = std::ranges::find(made->types_, type);
        made->arena_of_id_.push_back(static_cast<std::int32_t>(known - made->types_.begin()));
        if (known != made->types_.end()) continue;
        const std::size_t alignment = alignment_of(*type);
        if (!std::has_single_bit(alignment)) {
            return invalid("buffer type '", name_of(*type), "': an alignment of ", alignment,
                           " is not a power of two");
        }
        made->types_.push_back(type);
        made->alignments_.push_back(alignment);
        made->arenas_.push_back(
            {.chunk_limit = std::min(max_size_of(*type), kLargestChunk), .chunks = {}});
    }
    return made;
}

// ---- planning ----------------------------------------------------------------------------------

Result<ggml_gallocr::Ids> ggml_gallocr::arenas_of(const Graph& graph, const int* node_ids,
                                                  const int* leaf_ids) const {
    const auto translate = [&](const int* ids, std::span<Tensor* const> tensors,
                               std::vector<std::int32_t>& arenas) -> Result<> {
        if (ids == nullptr) return ok();
        arenas.reserve(tensors.size());
        for (std::size_t i = 0; i < tensors.size(); ++i) {
            const auto id = static_cast<std::size_t>(ids[i]);
            if (ids[i] < 0 || id >= arena_of_id_.size()) {
                return invalid("planning ", describe(*tensors[i]), ": buffer id ", ids[i],
                               " is not one of ", arena_of_id_.size());
            }
            arenas.push_back(arena_of_id_[id]);
        }
        return ok();
    };
    Ids ids;
    HEDDLE_TRY(translate(node_ids, nodes_of(graph), ids.nodes));
    HEDDLE_TRY(translate(leaf_ids, leafs_of(graph), ids.leafs));
    return ids;
}

alloc::Assignment ggml_gallocr::assignment(const Ids& ids) const {
    return {.arenas = types_, .alignments = alignments_, .nodes = ids.nodes, .leafs = ids.leafs};
}

Result<const alloc::Lifetimes*> ggml_gallocr::find(const Graph& graph, const Ids& ids) {
    reserved_ = nullptr;
    return finder_.find(graph, assignment(ids));
}

Result<alloc::Plan> ggml_gallocr::make_plan(const std::vector<alloc::Block>& blocks,
                                            alloc::Packer& packer) const {
    alloc::Plan plan{.blocks = blocks, .places = {}, .chunks = {}};
    plan.places.resize(blocks.size());
    plan.chunks.resize(arenas_.size());
    std::vector<alloc::Block> inside;
    std::vector<std::size_t> origin;
    for (std::size_t arena = 0; arena < arenas_.size(); ++arena) {
        inside.clear();
        origin.clear();
        for (std::size_t i = 0; i < blocks.size(); ++i) {
            if (static_cast<std::size_t>(blocks[i].arena) != arena) continue;
            inside.push_back(blocks[i]);
            origin.push_back(i);
        }
        const auto packed = packer.pack(inside, arenas_[arena].chunk_limit);
        if (!packed) return Error(packed.error()).within(name_of(*types_[arena]));
        const alloc::Packing& packing = **packed;
        for (std::size_t i = 0; i < origin.size(); ++i) plan.places[origin[i]] = packing.places[i];
        plan.chunks[arena] = packing.chunks;
    }
    return plan;
}

Result<std::vector<std::size_t>> ggml_gallocr::measure(const Graph& graph, const int* node_ids,
                                                       const int* leaf_ids) const {
    HEDDLE_TRY_ASSIGN(const Ids ids, arenas_of(graph, node_ids, leaf_ids));
    alloc::LifetimeFinder finder;
    const alloc::Assignment given = assignment(ids);
    HEDDLE_TRY_ASSIGN(const alloc::Lifetimes* const lifetimes, finder.find(graph, given));
    alloc::Packer packer;
    HEDDLE_TRY_ASSIGN(const alloc::Plan plan, make_plan(lifetimes->blocks, packer));
    std::vector<std::size_t> sizes(arena_of_id_.size());
    for (std::size_t id = 0; id < sizes.size(); ++id) {
        const auto first = std::ranges::find(arena_of_id_, arena_of_id_[id]);
        if (static_cast<std::size_t>(first - arena_of_id_.begin()) != id) continue;
        const auto arena = static_cast<std::size_t>(arena_of_id_[id]);
        for (const std::size_t chunk : plan.chunks[arena]) {
            sizes[id] += request_of(chunk, alignments_[arena]);
        }
    }
    return sizes;
}

Result<> ggml_gallocr::reserve(const Graph& graph, const int* node_ids, const int* leaf_ids) {
    HEDDLE_TRY_ASSIGN(Ids ids, arenas_of(graph, node_ids, leaf_ids));
    HEDDLE_TRY_ASSIGN(const alloc::Lifetimes* const lifetimes, find(graph, ids));
    HEDDLE_TRY(adopt(graph, *lifetimes, std::move(ids)));
    reserved_ = &graph;
    return ok();
}

/// Plans, gets the buffers, and makes the plan the current one.
Result<> ggml_gallocr::adopt(const Graph& graph, const alloc::Lifetimes& lifetimes, Ids ids) {
    HEDDLE_TRY_ASSIGN(alloc::Plan plan, make_plan(lifetimes.blocks, packer_));
    for (std::size_t arena = 0; arena < arenas_.size(); ++arena) {
        HEDDLE_TRY(provide(arena, plan.chunks[arena]));
    }
    plan_ = std::move(plan);
    planned_ = true;
    ids_ = std::move(ids);
    nodes_ = nodes_of(graph).size();
    leafs_ = leafs_of(graph).size();
    return ok();
}

Result<> ggml_gallocr::provide(std::size_t index, std::span<const std::size_t> sizes) {
    Arena& arena = arenas_[index];
    bool enough = sizes.size() <= arena.chunks.size();
    for (std::size_t i = 0; enough && i < sizes.size(); ++i) {
        enough = request_of(sizes[i], alignments_[index]) <= arena.chunks[i]->size;
    }
    if (enough) return ok();
    auto fresh = allocate_chunks(*types_[index], sizes, alignments_[index]);
    if (!fresh && !arena.chunks.empty()) {
        // Not both at a time. Without its buffers the old plan is worth nothing.
        planned_ = false;
        retire(arena);
        fresh = allocate_chunks(*types_[index], sizes, alignments_[index]);
    }
    if (!fresh) {
        std::size_t total = 0;
        for (const std::size_t size : sizes) total += size;
        return std::move(fresh).error().within(
            text("getting ", total, " bytes in ", sizes.size(), " buffers for a graph"));
    }
    // The old plan's places are in buffers that go now, unless the new plan is adopted whole.
    planned_ = false;
    retire(arena);
    arena.chunks = *std::move(fresh);
    return ok();
}

void ggml_gallocr::retire(Arena& arena) {
    retired_.reserve(retired_.size() + arena.chunks.size());
    for (OwnedBuffer& chunk : arena.chunks) {
        empty_buffer(*chunk);
        retired_.push_back(std::move(chunk));
    }
    arena.chunks.clear();
}

// ---- placing -----------------------------------------------------------------------------------

bool ggml_gallocr::has_planned_size(const Graph& graph) const {
    return planned_ && nodes_of(graph).size() == nodes_ && leafs_of(graph).size() == leafs_;
}

Result<bool> ggml_gallocr::fits(const Graph& graph) {
    if (!has_planned_size(graph)) return false;
    HEDDLE_TRY_ASSIGN(const alloc::Lifetimes* const lifetimes, find(graph, ids_));
    return plan_.covers(lifetimes->blocks);
}

Result<> ggml_gallocr::allocate(Graph& graph) {
    const bool same_size = has_planned_size(graph);
    const Ids none;
    HEDDLE_TRY_ASSIGN(const alloc::Lifetimes* const lifetimes,
                      find(graph, same_size ? ids_ : none));
    const std::vector<alloc::Block>& blocks = lifetimes->blocks;
    // A graph that has all it needs is fine without a plan.
    if (!blocks.empty() && !(same_size && plan_.covers(blocks))) {
        if (arena_of_id_.size() > 1) {
            return invalid("graph of ", nodes_of(graph).size(),
                           " nodes: it does not fit the plan of the last reservation (",
                           plan_.blocks.size(), " blocks for ", nodes_,
                           " nodes), and has to be reserved with its buffer ids");
        }
        HEDDLE_TRY(adopt(graph, *lifetimes, {}));
    }
    return place_all();
}

Result<> ggml_gallocr::place_reserved(Graph& graph) {
    if (reserved_ != &graph || !has_planned_size(graph)) {
        return invalid("placing a graph of ", nodes_of(graph).size(), " nodes and ",
                       leafs_of(graph).size(), " leafs: it is not the one reserved last");
    }
    return place_all();
}

Result<> ggml_gallocr::place_all() {
    for (Arena& arena : arenas_) {
        for (const OwnedBuffer& chunk : arena.chunks) reset_buffer(*chunk);
    }
    Placed placed;
    const auto& tenants = finder_.latest().tenants;
    for (std::size_t i = 0; i < tenants.size(); ++i) {
        if (i + kReadAhead < tenants.size()) prefetch(tenants[i + kReadAhead].tensor);
        const alloc::Tenant& tenant = tenants[i];
        const Tensor& tensor = *tenant.tensor;
        if (tensor.data != nullptr || tensor.buffer != nullptr) {
            return invalid("placing ", describe(tensor), ": it got memory after it was planned");
        }
        placed.add(tenant.tensor);
        HEDDLE_TRY(place(tenant));
    }
    HEDDLE_TRY(place_views(finder_.latest().views, placed));
    placed.keep();
    return ok();
}

Result<> ggml_gallocr::place(const alloc::Tenant& tenant) {
    const auto block = static_cast<std::size_t>(tenant.block);
    const alloc::Place& where = plan_.places[block];
    const Arena& arena = arenas_[static_cast<std::size_t>(plan_.blocks[block].arena)];
    Buffer& buffer = *arena.chunks[where.chunk];
    HEDDLE_TRY_ASSIGN(void* const base, base_of(buffer));
    // Device addresses need not be addresses here, so no arithmetic on pointers.
    const auto address = reinterpret_cast<std::uintptr_t>(base) + where.offset;
    return place_tensor(buffer, *tenant.tensor, reinterpret_cast<void*>(address));
}

std::span<const OwnedBuffer> ggml_gallocr::chunks(int id) const {
    const auto index = static_cast<std::size_t>(id);
    if (id < 0 || index >= arena_of_id_.size()) return {};
    return arenas_[static_cast<std::size_t>(arena_of_id_[index])].chunks;
}

Result<std::size_t> ggml_gallocr::buffer_size(int id) const {
    const auto index = static_cast<std::size_t>(id);
    if (id < 0 || index >= arena_of_id_.size()) {
        return invalid("buffer size: id ", id, " is not one of ", arena_of_id_.size());
    }
    const auto first = std::ranges::find(arena_of_id_, arena_of_id_[index]);
    if (static_cast<std::size_t>(first - arena_of_id_.begin()) != index) return std::size_t{0};
    std::size_t total = 0;
    for (const auto& chunk : arenas_[static_cast<std::size_t>(arena_of_id_[index])].chunks) {
        total += chunk->size;
    }
    return total;
}

std::vector<const Buffer*> ggml_gallocr::own_buffers() const {
    std::vector<const Buffer*> own;
    for (const Arena& arena : arenas_) {
        for (const OwnedBuffer& chunk : arena.chunks) own.push_back(chunk.get());
    }
    for (const OwnedBuffer& shell : retired_) own.push_back(shell.get());
    return own;
}
