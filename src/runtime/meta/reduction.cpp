#include "runtime/meta/reduction.hpp"

#include <algorithm>
#include <numeric>

#include "ggml/op_list.h"
#include "runtime/buffer_type.hpp"
#include "runtime/placement.hpp"
#include "runtime/transfer.hpp"

namespace heddle::meta {
namespace {

/// Below this size the time of a copy is mostly the time to begin it.
constexpr std::size_t kSmall = std::size_t{64} << 10;

std::size_t padded(std::size_t size, std::size_t alignment) {
    return (size + alignment - 1) & ~(alignment - 1);
}

/// A tensor with the type and shape of another one, and nothing else of it.
Tensor like(const Tensor& tensor) {
    Tensor made{};
    made.type = tensor.type;
    std::ranges::copy(tensor.ne, made.ne);
    std::ranges::copy(tensor.nb, made.nb);
    set_name(made, heddle::name_of(tensor));
    return made;
}

}  // namespace

// ---- scratch -----------------------------------------------------------------------------------

void Scratch::need(std::size_t size) {
    size_ = std::max(size_, padded(size, device_.memory_type().alignment()));
}

Result<> Scratch::allocate() {
    if (size_ == 0) return ok();
    for (std::size_t j = 0; j < buffers_.size(); ++j) {
        std::size_t total = 0;
        if (__builtin_mul_overflow(size_, buffers_.size(), &total)) {
            return failure(Errc::out_of_memory, "putting sums together: ", size_,
                           " bytes for each device are more than can be addressed");
        }
        auto made = heddle::allocate(device_.memory_type().type(j), total);
        if (!made) return std::move(made).error().within("room to put sums together");
        buffers_[j] = *std::move(made);
        set_usage(*buffers_[j], GGML_BACKEND_BUFFER_USAGE_COMPUTE);
    }
    return ok();
}

Result<> Scratch::place(Tensor& tensor, std::size_t device, std::size_t from) {
    HEDDLE_TRY_ASSIGN(void* const base, base_of(*buffers_[device]));
    const auto address = reinterpret_cast<std::uintptr_t>(base) + from * size_;
    return place_tensor(*buffers_[device], tensor, reinterpret_cast<void*>(address));
}

// ---- what is done ------------------------------------------------------------------------------

Reduction::Reduction(JoinedDevice& device, std::vector<Tensor*> tensors)
    : device_(device),
      tensors_(std::move(tensors)),
      kept_(tensors_.size()),
      additions_(tensors_.size()) {
    for (std::size_t j = 0; j < tensors_.size(); ++j) {
        if ((tensors_[j]->flags & GGML_TENSOR_FLAG_COMPUTE) != 0) present_.push_back(j);
    }
}

bool Reduction::is_present(std::size_t device) const {
    return std::ranges::find(present_, device) != present_.end();
}

std::vector<Reduction::Part> Reduction::parts() const {
    const Tensor& whole = *tensors_[0];
    const std::size_t devices = tensors_.size();
    const std::int64_t count = element_count(whole);
    if (devices <= 2 || byte_size(whole) <= kSmall || !is_contiguous(whole) ||
        block_size(whole.type) != 1) {
        std::vector<std::size_t> all(devices);
        std::iota(all.begin(), all.end(), 0);
        return {{0, count, std::move(all)}};
    }
    // Parts begin where any device can have a tensor begin.
    const auto step = static_cast<std::int64_t>(device_.memory_type().alignment());
    const auto parts = static_cast<std::int64_t>(devices);
    const std::int64_t size = ((count + parts - 1) / parts + step - 1) / step * step;
    std::vector<Part> cut;
    for (std::size_t j = 0; j < devices; ++j) {
        const std::int64_t first = std::min(count, static_cast<std::int64_t>(j) * size);
        const std::int64_t rest = std::min(size, count - first);
        if (rest > 0) cut.push_back({first, rest, {j}});
    }
    return cut;
}

std::size_t Reduction::scratch_size() const {
    std::size_t largest = 0;
    if (present_.empty()) return 0;
    for (const Part& part : parts()) {
        const bool is_whole = part.count == element_count(*tensors_[0]);
        const std::size_t bytes =
            is_whole ? byte_size(*tensors_[0]) : row_size(tensors_[0]->type, part.count);
        largest = std::max(largest, bytes);
    }
    return largest;
}

/// The elements of a part where they are on `device`.
Result<Tensor> Reduction::look(std::size_t device, const Part& part) {
    Tensor& own = *tensors_[device];
    Tensor view = like(own);
    if (part.count != element_count(own)) {
        const Extents extents{part.count, 1, 1, 1};
        std::ranges::copy(extents, view.ne);
        std::ranges::copy(dense_strides(own.type, extents), view.nb);
    }
    view.view_src = own.view_src != nullptr ? own.view_src : &own;
    view.view_offs = own.view_offs + row_size(own.type, part.first);
    HEDDLE_TRY(place_view(view));
    return view;
}

Result<> Reduction::add_node(std::size_t device, const Tensor& target, const Tensor& a,
                             const Tensor& b) {
    const auto keep = [&](const Tensor& tensor) { return &kept_[device].emplace_back(tensor); };
    Tensor* const sources[] = {keep(a), keep(b)};
    Tensor* const node = keep(target);
    node->op = GGML_OP_ADD;
    node->flags = GGML_TENSOR_FLAG_COMPUTE;
    node->src[0] = sources[0];
    node->src[1] = sources[1];
    if (!supports_op(device_.device(device), *node)) {
        return failure(Errc::unsupported, "putting the sum ", heddle::describe(target),
                       " together: device '", heddle::name_of(device_.device(device)),
                       "' cannot add tensors of type ", heddle::name_of(target.type));
    }
    additions_[device].push_back(node);
    return ok();
}

/// Has `adder` get the addends of the others and add them all up, into its own tensor.
Result<> Reduction::add_up(const Part& part, std::size_t adder, Scratch& scratch) {
    HEDDLE_TRY_ASSIGN(const Tensor own, look(adder, part));
    std::vector<Tensor> addends;
    for (const std::size_t j : present_) {
        if (j == adder) {
            addends.push_back(own);
            continue;
        }
        HEDDLE_TRY_ASSIGN(const Tensor source, look(j, part));
        Tensor target = own;
        if (present_.size() > 1) {
            target = like(own);
            HEDDLE_TRY(scratch.place(target, adder, j));
        }
        gather_.push_back({j, adder, source, target});
        addends.push_back(target);
    }
    for (std::size_t i = 1; i < addends.size(); ++i) {
        const bool is_last = i + 1 == addends.size();
        HEDDLE_TRY(add_node(adder, is_last ? own : addends[0], addends[0], addends[i]));
    }
    return ok();
}

Result<> Reduction::build(Scratch& scratch) {
    if (present_.empty()) return ok();
    for (const Part& part : parts()) {
        for (const std::size_t adder : part.adders) HEDDLE_TRY(add_up(part, adder, scratch));
        for (std::size_t j = 0; j < tensors_.size(); ++j) {
            if (std::ranges::find(part.adders, j) != part.adders.end()) continue;
            HEDDLE_TRY_ASSIGN(const Tensor source, look(part.adders[0], part));
            HEDDLE_TRY_ASSIGN(const Tensor target, look(j, part));
            spread_.push_back({part.adders[0], j, source, target});
        }
    }
    return make_graphs();
}

Result<> Reduction::make_graphs() {
    std::size_t bytes = 0;
    for (const auto& nodes : additions_) bytes += graph_overhead(nodes.size() + 1, false) + 64;
    HEDDLE_TRY_ASSIGN(context_, make_context(bytes, nullptr, true));
    for (const auto& nodes : additions_) {
        HEDDLE_TRY_ASSIGN(Graph* const graph, new_graph(*context_, nodes.size() + 1, false));
        for (Tensor* node : nodes) HEDDLE_TRY(append_node(*graph, *node));
        graph->uid = next_graph_uid();
        graphs_.push_back(graph);
    }
    return ok();
}

// ---- doing it ----------------------------------------------------------------------------------

Result<> Reduction::run(StreamGroup& group) {
    if (group.size() < 2 || is_empty(*tensors_[0])) return ok();
    if (group.add_up(tensors_)) return ok();
    if (present_.empty()) {
        HEDDLE_TRY(group.finish_all());
        for (Tensor* tensor : tensors_) HEDDLE_TRY(zero_tensor(*tensor));
        return ok();
    }
    // No stream may still be using what is written now.
    HEDDLE_TRY(group.meet());
    const auto copy_all = [&](std::deque<Copy>& copies) -> Result<> {
        for (Copy& each : copies) {
            HEDDLE_TRY(
                copy_tensor_async(group[each.from], group[each.to], each.source, each.target));
        }
        return ok();
    };
    HEDDLE_TRY(copy_all(gather_));
    for (const std::size_t j : group.order()) {
        if (!additions_[j].empty()) HEDDLE_TRY(compute_async(group[j], *graphs_[j]));
    }
    return copy_all(spread_);
}

}  // namespace heddle::meta
