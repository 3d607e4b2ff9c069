#include "bench/workload.hpp"

#include <algorithm>

#include "ggml-backend.h"
#include "ggml/op_list.h"
#include "heddle/heddle.h"
#include "interrupt.hpp"

namespace heddle::tool::bench {
namespace {

constexpr int kMostTimes = 64;  ///< in one graph
constexpr std::size_t kMostGraphs = 64;
constexpr std::size_t kMostNodes = std::size_t{kMostTimes} * 4;
constexpr std::size_t kMostTensors = kMostGraphs * kMostTimes * 6;

/// How often an op must be computed for a run to take long enough to be measured.
int times_for(const Work& work) {
    constexpr double kLongEnough = 3e-4, kBytesPerSecond = 2e10, kFlopsPerSecond = 1e11;
    const double took = std::max(work.bytes / kBytesPerSecond, work.flops / kFlopsPerSecond);
    return static_cast<int>(
        std::clamp(kLongEnough / std::max(took, 1e-9), 1.0, double{kMostTimes}));
}

Error last_failure(Errc code, std::string_view otherwise) {
    const std::string_view said = heddle_last_error();
    return failure(code, said.empty() ? otherwise : said);
}

/// Puts tensors one after the other in memory of a buffer type.
class Places {
public:
    explicit Places(ggml_backend_buffer_type_t type)
        : type_(type), alignment_(ggml_backend_buft_get_alignment(type)) {}

    /// The next place; others may have it too.
    std::size_t take(ggml_tensor* tensor) {
        const std::size_t place = size_;
        size_ += ggml_backend_buft_get_alloc_size(type_, tensor);
        size_ = (size_ + alignment_ - 1) / alignment_ * alignment_;
        share(tensor, place);
        return place;
    }
    void share(ggml_tensor* tensor, std::size_t place) { placed_.emplace_back(tensor, place); }

    Result<ggml_backend_buffer_ptr> allocate() const {
        ggml_backend_buffer_ptr buffer(ggml_backend_buft_alloc_buffer(type_, size_ + alignment_));
        if (buffer == nullptr) {
            return last_failure(Errc::out_of_memory, "no memory for the tensors");
        }
        auto* const base = static_cast<char*>(ggml_backend_buffer_get_base(buffer.get()));
        for (const auto& [tensor, place] : placed_) {
            if (ggml_backend_tensor_alloc(buffer.get(), tensor, base + place) !=
                GGML_STATUS_SUCCESS) {
                return last_failure(Errc::device, "a tensor cannot be placed");
            }
        }
        return buffer;
    }

private:
    ggml_backend_buffer_type_t type_;
    std::size_t alignment_, size_ = 0;
    std::vector<std::pair<ggml_tensor*, std::size_t>> placed_;
};

/// Says of weights where they would be.
void pretend_in(ggml_backend_buffer_t buffer, const Inputs& inputs) {
    for (const Inputs::Leaf& leaf : inputs.leaves()) {
        if (leaf.is_weight) leaf.tensor->buffer = buffer;
    }
}

bool has_memory_of_its_own(const ggml_tensor* tensor) { return tensor->view_src == nullptr; }

}  // namespace

Result<Workload> Workload::make(const Case& what, const Target& target, std::size_t memory_bytes,
                                ggml_backend_buffer_type_t weights_in) {
    Workload made(target.stream().c());
    if (auto built = made.build(what, target, memory_bytes, weights_in); !built) {
        return std::move(built).error().within(what.op + " " + what.type + " " + what.shape);
    }
    return made;
}

Result<> Workload::add_time(const Case& what, Inputs& inputs) {
    inputs.begin_again(what.from_memory);
    ggml_tensor* result = what.build(inputs);
    if (result == nullptr) return last_failure(Errc::invalid_argument, "cannot be built");
    ggml_build_forward_expand(graphs_.back(), result);
    ends_.push_back(result);
    return ok();
}

Result<> Workload::build(const Case& what, const Target& target, std::size_t memory_bytes,
                         ggml_backend_buffer_type_t weights_in) {
    heddle_clear_error();
    context_.reset(
        ggml_init({.mem_size = kMostTensors * ggml_tensor_overhead() +
                               kMostGraphs * ggml_graph_overhead_custom(kMostNodes, false),
                   .mem_buffer = nullptr,
                   .no_alloc = true}));
    if (context_ == nullptr) return last_failure(Errc::out_of_memory, "no memory for a context");
    const auto begin_graph = [&]() -> Result<> {
        graphs_.push_back(ggml_new_graph_custom(context_.get(), kMostNodes, false));
        if (graphs_.back() != nullptr) return ok();
        return last_failure(Errc::out_of_memory, "no memory for a graph");
    };
    Inputs inputs(context_.get());
    HEDDLE_TRY(begin_graph());
    HEDDLE_TRY(add_time(what, inputs));
    work_ = work_of(graphs_.back());
    times_ = times_for(work_);
    std::size_t graphs = 1;
    if (what.from_memory) {
        // A graph for each so many bytes: short runs are less likely to be disturbed.
        constexpr std::size_t kBytesOfGraph = std::size_t{32} << 20;
        const std::size_t each = inputs.weight_bytes();
        times_ = static_cast<int>(std::clamp<std::size_t>(kBytesOfGraph / each, 1, kMostTimes));
        const std::size_t of_graph = each * static_cast<std::size_t>(times_);
        graphs = std::clamp<std::size_t>((memory_bytes + of_graph - 1) / of_graph, 1, kMostGraphs);
    }
    for (std::size_t i = 0; i < graphs; ++i) {
        if (i > 0) HEDDLE_TRY(begin_graph());
        for (int time = i == 0 ? 1 : 0; time < times_; ++time) {
            HEDDLE_TRY(add_time(what, inputs));
        }
    }
    weight_bytes_ = inputs.weight_bytes();
    const ggml_backend_buffer_ptr nowhere(
        weights_in != nullptr ? ggml_backend_buft_alloc_buffer(weights_in, 0) : nullptr);
    pretend_in(nowhere.get(), inputs);
    declined_ = !std::ranges::all_of(nodes(), [&](const ggml_tensor* node) {
        return ggml_backend_dev_supports_op(target.device().c(), node);
    });
    pretend_in(nullptr, inputs);
    if (declined_) return ok();
    if (weights_in != nullptr) HEDDLE_TRY(place_weights(inputs, weights_in));
    HEDDLE_TRY(place_others(inputs));
    for (const Inputs::Leaf& leaf : inputs.leaves()) {
        if (is_interrupted()) break;  // nothing is going to be measured
        HEDDLE_TRY(fill(leaf.tensor, leaf.content));
    }
    return ok();
}

std::vector<ggml_tensor*> Workload::nodes() const {
    std::vector<ggml_tensor*> all;
    for (ggml_cgraph* graph : graphs_) {
        for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
            // Graphs count weights that are trained among the nodes; here they are leaves.
            ggml_tensor* node = ggml_graph_node(graph, i);
            if (node->op != GGML_OP_NONE) all.push_back(node);
        }
    }
    return all;
}

Result<> Workload::place_weights(const Inputs& inputs, ggml_backend_buffer_type_t type) {
    Places places(type);
    for (const Inputs::Leaf& leaf : inputs.leaves()) {
        if (leaf.is_weight) places.take(leaf.tensor);
    }
    HEDDLE_TRY_ASSIGN(weights_, places.allocate());
    return ok();
}

Result<> Workload::place_others(const Inputs& inputs) {
    Places places(ggml_backend_get_default_buffer_type(stream_));
    for (const Inputs::Leaf& leaf : inputs.leaves()) {
        if (leaf.tensor->buffer == nullptr) places.take(leaf.tensor);
    }
    // Results have the same place each time, so that caches hold them as they would in a model.
    std::vector<std::size_t> first_time;
    std::vector<ggml_tensor*> views;
    std::size_t time = 0, result = 0;
    for (ggml_tensor* node : nodes()) {
        if (!has_memory_of_its_own(node)) {
            views.push_back(node);
        } else if (time == 0) {
            first_time.push_back(places.take(node));
        } else {
            places.share(node, first_time[result++]);
        }
        if (node == ends_[time]) ++time, result = 0;
    }
    HEDDLE_TRY_ASSIGN(buffer_, places.allocate());
    for (ggml_tensor* view : views) {
        if (ggml_backend_view_init(view) != GGML_STATUS_SUCCESS) {
            return last_failure(Errc::device, "a view cannot be placed");
        }
    }
    return ok();
}

Result<> Workload::run() {
    ggml_cgraph* const graph = graphs_[next_++ % graphs_.size()];
    if (ggml_backend_graph_compute(stream_, graph) == GGML_STATUS_SUCCESS) return ok();
    return last_failure(Errc::device, "the graph was not computed");
}

}  // namespace heddle::tool::bench
