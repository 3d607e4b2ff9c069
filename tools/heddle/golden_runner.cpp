#include "golden_runner.hpp"

#include <cstring>

#include "core/context.hpp"
#include "core/graph.hpp"
#include "golden/build_case.hpp"
#include "heddle/heddle.h"

namespace heddle::tool {
namespace {

using golden::Bytes;
using golden::Comparison;

Outcome failed(std::string what) {
    return {.kind = Outcome::Kind::failed, .what = std::move(what)};
}

/// Keeps the worse of two judgements: a failure before a pass, else the larger share of its limit.
void judge(Outcome& outcome, const Result<Comparison>& comparison) {
    if (outcome.kind == Outcome::Kind::failed) return;
    if (!comparison) {
        outcome = failed(comparison.error().message);
        return;
    }
    if (!comparison->passed) outcome.kind = Outcome::Kind::failed, outcome.what = comparison->what;
    if (!comparison->passed || comparison->error >= outcome.error) {
        outcome.error = comparison->error;
        outcome.limit = comparison->limit;
    }
}

/// A recorded node with its storages in memory of a device. Every storage is a row of bytes; the
/// operands and the result are views into them.
class DeviceCase {
public:
    static Result<DeviceCase> make(const golden::OpCase& golden) {
        HEDDLE_TRY_ASSIGN(auto headers, golden::make_header_context(2 * kMaxSources, 1));
        HEDDLE_TRY_ASSIGN(auto roots, golden::make_header_context(2 * kMaxSources));
        HEDDLE_TRY_ASSIGN(auto raw, golden::make_raw_node(golden, *headers));
        DeviceCase made(std::move(headers), std::move(roots), std::move(raw));
        HEDDLE_TRY(made.move_to_roots(golden));
        return made;
    }

    Tensor& node() const { return *raw_.node; }

    /// Memory on the device, filled as recorded.
    Result<> upload(const Target& target) {
        const ggml_backend_buffer_type_t type = target.device().buffer_type();
        memory_.reset(ggml_backend_alloc_ctx_tensors_from_buft(root_context_.get(), type));
        for (int slot = -1; slot < kMaxSources; ++slot) {
            const auto bytes = storage(slot).bytes();
            if (bytes.empty()) continue;
            if (memory_ == nullptr) return failure(Errc::out_of_memory, heddle_last_error());
            ggml_backend_tensor_set(root(slot), bytes.data(), 0, bytes.size());
        }
        for (Tensor* tensor = first_tensor(*headers_); tensor; tensor = next_tensor(*tensor)) {
            if (tensor->view_src == nullptr) continue;  // it has no elements
            if (ggml_backend_view_init(tensor) != GGML_STATUS_SUCCESS)
                return invalid(heddle_last_error());
        }
        return ok();
    }

    Result<> compute(const Target& target) {
        HEDDLE_TRY_ASSIGN(Graph * graph, new_graph(*headers_, 1, false));
        HEDDLE_TRY(append_node(*graph, node()));
        if (ggml_backend_graph_compute(target.stream().c(), graph) == GGML_STATUS_SUCCESS)
            return ok();
        return failure(Errc::device, heddle_last_error());
    }

    Bytes download(int slot) {
        Bytes bytes(storage(slot).bytes().size());
        if (!bytes.empty()) ggml_backend_tensor_get(root(slot), bytes.data(), 0, bytes.size());
        return bytes;
    }

    int result_slot() const { return raw_.result_slot; }

private:
    DeviceCase(OwnedContext headers, OwnedContext roots, golden::RawCase raw)
        : headers_(std::move(headers)), root_context_(std::move(roots)), raw_(std::move(raw)) {}

    golden::Storage& storage(int slot) {
        return slot < 0 ? raw_.own : raw_.sources[static_cast<std::size_t>(slot)];
    }
    Tensor*& root(int slot) { return roots_[static_cast<std::size_t>(slot + 1)]; }

    /// Takes the tensors out of host memory: each becomes a view of the root of its storage.
    Result<> move_to_roots(const golden::OpCase& golden) {
        for (int slot = -1; slot < kMaxSources; ++slot) {
            const auto size = static_cast<std::int64_t>(storage(slot).bytes().size());
            if (size == 0) continue;
            HEDDLE_TRY_ASSIGN(root(slot), new_tensor(*root_context_, GGML_TYPE_I8, {&size, 1}));
        }
        const auto look_into = [&](Tensor& tensor, int slot, std::size_t offset) {
            tensor.buffer = nullptr;
            tensor.data = nullptr;
            tensor.view_src = root(slot);
            tensor.view_offs = offset;
        };
        for (const golden::Source& source : golden.sources) {
            if (source.storage_of == golden::Source::kNodeItself) continue;
            look_into(*node().src[source.slot], source.storage_of, source.layout.offset);
        }
        look_into(node(), raw_.result_slot, golden.result.layout.offset);
        return ok();
    }

    OwnedContext headers_;
    OwnedContext root_context_;
    golden::RawCase raw_;
    std::array<Tensor*, kMaxSources + 1> roots_{};  ///< of each slot, after that of the node itself
    ggml_backend_buffer_ptr memory_;
};

Result<Outcome> try_case(const golden::OpCase& golden, const Target& target) {
    HEDDLE_TRY_ASSIGN(DeviceCase on_device, DeviceCase::make(golden));
    if (!ggml_backend_dev_supports_op(target.device().c(), &on_device.node())) {
        return Outcome{.kind = Outcome::Kind::declined,
                       .what = target.device().objection(on_device.node())};
    }
    HEDDLE_TRY(on_device.upload(target));
    HEDDLE_TRY(on_device.compute(target));
    Outcome outcome;
    judge(outcome, golden::compare_result(golden, on_device.download(on_device.result_slot())));
    for (const golden::Source& source : golden.sources) {
        if (!source.after) continue;
        judge(outcome, golden::compare_after(golden, source, on_device.download(source.slot)));
    }
    outcome.is_computed = true;
    return outcome;
}

/// The elements of a tensor on a device, densely packed.
Bytes read_dense(const Tensor& tensor) {
    Bytes span(byte_size(tensor));
    ggml_backend_tensor_get(&tensor, span.data(), 0, span.size());
    if (is_contiguous(tensor)) return span;
    const std::size_t size = size_of(tensor.type);
    Bytes dense(static_cast<std::size_t>(element_count(tensor)) * size);
    for (std::int64_t i = 0; i < element_count(tensor); ++i) {
        const Extents at = unravel(tensor, i);
        std::size_t offset = 0;
        for (std::size_t d = 0; d < kMaxDims; ++d)
            offset += static_cast<std::size_t>(at[d]) * tensor.nb[d];
        std::memcpy(dense.data() + static_cast<std::size_t>(i) * size, span.data() + offset, size);
    }
    return dense;
}

/// Memory for all tensors of a graph, leafs filled as recorded.
Result<ggml_backend_buffer_ptr> upload(const golden::GraphCase& golden,
                                       const golden::GraphBuild& built, Context& context,
                                       const Target& target) {
    ggml_backend_buffer_ptr memory(ggml_backend_alloc_ctx_tensors(&context, target.stream().c()));
    if (memory == nullptr) return failure(Errc::out_of_memory, heddle_last_error());
    for (const golden::GraphTensor& leaf : golden.leafs) {
        ggml_backend_tensor_set(built.tensors.at(leaf.number), leaf.bytes.data(), 0,
                                leaf.bytes.size());
    }
    return memory;
}

Result<> perform(golden::Step step, Graph& graph, const Target& target) {
    if (step == golden::Step::reset) {
        heddle_clear_error();
        ggml_graph_reset(&graph);  // says that it failed only through the sentence
        const std::string_view sentence = heddle_last_error();
        return sentence.empty() ? ok() : failure(Errc::device, sentence);
    }
    if (ggml_backend_graph_compute(target.stream().c(), &graph) == GGML_STATUS_SUCCESS) return ok();
    return failure(Errc::device, heddle_last_error());
}

Result<Outcome> try_case(const golden::GraphCase& golden, const Target& target) {
    HEDDLE_TRY_ASSIGN(auto context, golden::make_graph_context(golden));
    HEDDLE_TRY_ASSIGN(const auto built, golden::build_graph(golden, *context));
    for (const Tensor* node : nodes_of(*built.graph)) {
        if (ggml_backend_dev_supports_op(target.device().c(), node)) continue;
        return Outcome{.kind = Outcome::Kind::declined,
                       .what = text(ggml_op_desc(node), ": ", target.device().objection(*node))};
    }
    HEDDLE_TRY_ASSIGN(const auto memory, upload(golden, built, *context, target));
    for (const golden::Step step : built.steps) {
        HEDDLE_TRY(perform(step, *built.graph, target));
    }
    Outcome outcome;
    for (const auto* tensors : {&golden.outputs, &golden.changed_leafs}) {
        for (const golden::GraphTensor& recorded : *tensors) {
            const Bytes bytes = read_dense(*built.tensors.at(recorded.number));
            judge(outcome, golden::compare_tensor(golden, recorded, bytes));
        }
    }
    for (const golden::GraphTensor& recorded : golden.gradients) {
        const Tensor& x = *built.tensors.at(recorded.number);
        const Tensor* gradient = ggml_graph_get_grad(built.graph, &x);
        if (gradient == nullptr) return invalid(describe(x), " has no gradient");
        judge(outcome, golden::compare_tensor(golden, recorded, read_dense(*gradient)));
    }
    outcome.is_computed = true;
    return outcome;
}

template <class Case>
Outcome run(const Case& golden, const Target& target) {
    heddle_clear_error();
    auto outcome = try_case(golden, target);
    return outcome ? *std::move(outcome) : failed(outcome.error().message);
}

}  // namespace

Outcome run_case(const golden::OpCase& golden, const Target& target) { return run(golden, target); }
Outcome run_case(const golden::GraphCase& golden, const Target& target) {
    return run(golden, target);
}

}  // namespace heddle::tool
