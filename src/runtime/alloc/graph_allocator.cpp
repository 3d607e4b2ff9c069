#include "runtime/alloc/graph_allocator.hpp"

#include <algorithm>
#include <bit>

#include "core/prefetch.hpp"
#include "runtime/device.hpp"
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
        HEDDLE_TRY_ASSIGN(OwnedBuffer buffer, allocate(type, request_of(size, alignment)));
        set_usage(*buffer, GGML_BACKEND_BUFFER_USAGE_COMPUTE);
        chunks.push_back(std::move(buffer));
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

/// Whether nothing can be read from a view of what has no memory. Views of views, which are made
/// by hand, may still get the memory of theirs.
bool is_homeless(const Tensor& view) {
    return view.data == nullptr && view.view_src->view_src == nullptr && !is_empty(view);
}

/// Gives a view the memory of its root, where that has some.
Result<> place_if_view(Tensor* tensor, Placed& placed) {
    if (tensor->buffer != nullptr) return ok();
    const Tensor& root = *tensor->view_src;
    if (root.buffer == nullptr && root.data == nullptr && is_homeless(*tensor)) {
        return invalid("placing ", describe(*tensor), ": ", describe(root),
                       ", which it is a view of, is not in the graph and has no memory");
    }
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

/// Whether a device computes there that may compute groups of nodes at once. The CPU does
/// not; its results lie in memory of the host, of whatever type.
bool may_fuse(BufferType& type) {
    if (is_host(type)) return false;
    Device* const device = device_of(type);
    if (device == nullptr) return true;
    const auto kind = type_of(*device);
    return !kind || *kind != GGML_BACKEND_DEVICE_TYPE_CPU;
}

std::size_t bytes_of(std::span<const alloc::Block> blocks) {
    std::size_t bytes = 0;
    for (const alloc::Block& block : blocks) bytes += block.size;
    return bytes;
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
        made->fuses_.push_back(may_fuse(*type) ? 1 : 0);
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
    return {.arenas = types_,
            .alignments = alignments_,
            .nodes = ids.nodes,
            .leafs = ids.leafs,
            .fuses = fuses_};
}

Result<const alloc::Lifetimes*> ggml_gallocr::find(const Graph& graph, const Ids& ids) {
    reserved_ = nullptr;
    return planner_.find(graph, assignment(ids), plan_);
}

std::vector<alloc::ArenaRoom> ggml_gallocr::rooms() const {
    std::vector<alloc::ArenaRoom> rooms;
    for (std::size_t i = 0; i < arenas_.size(); ++i) {
        rooms.push_back({.name = name_of(*types_[i]), .chunk_limit = arenas_[i].chunk_limit});
        for (const OwnedBuffer& chunk : arenas_[i].chunks) {
            rooms.back().reserved.push_back(chunk->size);
        }
    }
    return rooms;
}

Result<std::vector<std::size_t>> ggml_gallocr::measure(const Graph& graph, const int* node_ids,
                                                       const int* leaf_ids,
                                                       alloc::FusionCost cost) const {
    HEDDLE_TRY_ASSIGN(const Ids ids, arenas_of(graph, node_ids, leaf_ids));
    alloc::Planner planner;
    HEDDLE_TRY_ASSIGN(const alloc::Plan plan, planner.plan(graph, assignment(ids), rooms(), cost));
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

Result<> ggml_gallocr::reserve(const Graph& graph, const int* node_ids, const int* leaf_ids,
                               alloc::FusionCost cost) {
    HEDDLE_TRY_ASSIGN(Ids ids, arenas_of(graph, node_ids, leaf_ids));
    HEDDLE_TRY(adopt(graph, std::move(ids), cost));
    reserved_ = &graph;
    return ok();
}

/// Plans, gets the buffers, and makes the plan the current one.
Result<> ggml_gallocr::adopt(const Graph& graph, Ids ids, alloc::FusionCost cost) {
    reserved_ = nullptr;
    HEDDLE_TRY_ASSIGN(alloc::Plan plan, planner_.plan(graph, assignment(ids), rooms(), cost));
    auto provided = provide_all(plan);
    const bool has_groups = std::ranges::find(plan.steps, true) != plan.steps.end();
    if (!provided && provided.error().code == Errc::out_of_memory && has_groups) {
        HEDDLE_TRY_ASSIGN(
            plan, planner_.plan(graph, assignment(ids), rooms(), alloc::FusionCost::nothing));
        provided = provide_all(plan);
    }
    HEDDLE_TRY(std::move(provided));
    keep(graph, std::move(plan), std::move(ids));
    return ok();
}

Result<> ggml_gallocr::provide_all(const alloc::Plan& plan) {
    for (std::size_t arena = 0; arena < arenas_.size(); ++arena) {
        HEDDLE_TRY(provide(arena, plan.chunks[arena]));
    }
    return ok();
}

void ggml_gallocr::keep(const Graph& graph, alloc::Plan plan, Ids ids) {
    plan_ = std::move(plan);
    planned_ = true;
    no_room_for_ = bytes_of(plan_.blocks);
    ids_ = std::move(ids);
    nodes_ = nodes_of(graph).size();
    leafs_ = leafs_of(graph).size();
}

/// The plan holds for `graph`, which is smaller than the one it was made for and is the planner's
/// latest: if there was too little memory for groups then, there may be enough now.
Result<> ggml_gallocr::make_room_for_groups(const Graph& graph) {
    const std::size_t bytes = bytes_of(planner_.latest().blocks);
    if (!plan_.drops_groups() || bytes >= no_room_for_) return ok();
    HEDDLE_TRY_ASSIGN(alloc::Plan plan, planner_.plan(graph, assignment(ids_), rooms()));
    bool is_there = !plan.drops_groups();
    for (std::size_t i = 0; is_there && i < arenas_.size(); ++i) {
        is_there = has_room(i, plan.chunks[i]);
    }
    if (is_there) {
        keep(graph, std::move(plan), std::move(ids_));
        return ok();
    }
    no_room_for_ = bytes;
    HEDDLE_TRY(find(graph, ids_));
    return ok();
}

bool ggml_gallocr::has_room(std::size_t index, std::span<const std::size_t> sizes) const {
    const Arena& arena = arenas_[index];
    bool enough = sizes.size() <= arena.chunks.size();
    for (std::size_t i = 0; enough && i < sizes.size(); ++i) {
        enough = request_of(sizes[i], alignments_[index]) <= arena.chunks[i]->size;
    }
    return enough;
}

Result<> ggml_gallocr::provide(std::size_t index, std::span<const std::size_t> sizes) {
    if (has_room(index, sizes)) return ok();
    Arena& arena = arenas_[index];
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
    if (blocks.empty()) return place_all();
    if (same_size && plan_.covers(blocks)) {
        HEDDLE_TRY(make_room_for_groups(graph));
    } else {
        if (arena_of_id_.size() > 1) {
            return invalid("graph of ", nodes_of(graph).size(),
                           " nodes: it does not fit the plan of the last reservation (",
                           plan_.blocks.size(), " blocks for ", nodes_,
                           " nodes), and has to be reserved with its buffer ids");
        }
        HEDDLE_TRY(adopt(graph, {}, alloc::FusionCost::little));
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
    const auto& tenants = planner_.latest().tenants;
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
    HEDDLE_TRY(place_views(planner_.latest().views, placed));
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
