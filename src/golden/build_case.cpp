#include "golden/build_case.hpp"

#include <algorithm>
#include <cstring>

#include "ggml/op_list.h"

namespace heddle::golden {
namespace {

/// What a tensor is, as far as a case records it.
Layout layout_of(const Tensor& tensor) {
    return {tensor.type, extents_of(tensor), strides_of(tensor),
            tensor.view_src != nullptr ? tensor.view_offs : 0};
}

std::string describe(const Strides& stride) {
    return text("[", stride[0], ",", stride[1], ",", stride[2], ",", stride[3], "]");
}

Result<> check_layout(const Layout& built, const Layout& recorded, std::string_view what) {
    if (built.type != recorded.type || built.extent != recorded.extent) {
        return invalid(what, " is ", name_of(built.type), heddle::describe(built.extent),
                       ", recorded is ", name_of(recorded.type), heddle::describe(recorded.extent));
    }
    if (built.stride != recorded.stride) {
        return invalid(what, " has strides ", describe(built.stride), ", recorded are ",
                       describe(recorded.stride));
    }
    if (built.offset != recorded.offset) {
        return invalid(what, " begins at byte ", built.offset, " of its storage, recorded is ",
                       recorded.offset);
    }
    return ok();
}

const Tensor* root_of(const Tensor* tensor) {
    return tensor != nullptr && tensor->view_src != nullptr ? tensor->view_src : tensor;
}

Result<> check_sources(const OpCase& golden, const Tensor& node) {
    for (int slot = 0; slot < kMaxSources; ++slot) {
        const Tensor* built = node.src[slot];
        const Source* recorded = golden.source(slot);
        if ((built == nullptr) != (recorded == nullptr)) {
            return invalid("slot ", slot, " is ", built == nullptr ? "empty" : "in use",
                           ", recorded is the opposite");
        }
        if (recorded == nullptr) continue;
        if (recorded->storage_of == Source::kNodeItself) {
            if (built != &node) return invalid("slot ", slot, " is not the node itself");
            continue;
        }
        HEDDLE_TRY(check_layout(layout_of(*built), recorded->layout, text("slot ", slot)));
        if (root_of(built) != root_of(node.src[recorded->storage_of])) {
            return invalid("slot ", slot, " does not lie in the storage of slot ",
                           recorded->storage_of);
        }
    }
    return ok();
}

Result<> check_view(const OpCase& golden, const Tensor& node) {
    const int slot = golden.result.view_of;
    if (slot < 0) {
        if (node.view_src == nullptr) return ok();
        return invalid("the node is a view of ", heddle::describe(*node.view_src),
                       ", recorded is one with memory of its own");
    }
    if (node.view_src != nullptr && node.view_src == root_of(node.src[slot])) return ok();
    return invalid("the node is no view of slot ", slot, ", recorded it is");
}

Result<> check_params(const OpCase& golden, const Tensor& node) {
    for (std::size_t i = 0; i < golden.params.size(); ++i) {
        if (node.op_params[i] == golden.params[i]) continue;
        return invalid("word ", i, " of the parameters is ", node.op_params[i], ", recorded is ",
                       golden.params[i]);
    }
    return ok();
}

Result<> check_built_node(const OpCase& golden, const Tensor& node) {
    if (golden.op != ggml_op_name(node.op)) {
        return invalid("the op is ", ggml_op_name(node.op), ", recorded is ", golden.op);
    }
    HEDDLE_TRY(check_params(golden, node));
    HEDDLE_TRY(check_layout(layout_of(node), golden.result.layout, "the node"));
    HEDDLE_TRY(check_view(golden, node));
    return check_sources(golden, node);
}

struct Description {
    std::string_view calls;
    std::string_view sources;
};

/// The parts before the first and the second bar. A text without a source has a remark there, or
/// nothing.
Description split_description(const OpCase& golden) {
    const std::string_view whole = golden.description;
    constexpr std::string_view bar = " | ";
    const std::size_t first = std::min(whole.find(bar), whole.size());
    if (first == whole.size() || golden.sources.empty()) return {whole.substr(0, first), {}};
    const std::size_t begin = first + bar.size();
    return {whole.substr(0, first), whole.substr(begin, whole.find(bar, begin) - begin)};
}

Result<> build_and_check(const OpCase& golden) {
    HEDDLE_TRY_ASSIGN(const auto program, program_of(golden));
    const auto& [sources, statements] = program;
    constexpr std::size_t kHeadersPerBuilder = 8;
    HEDDLE_TRY_ASSIGN(
        const OwnedContext context,
        make_header_context(kHeadersPerBuilder * (sources.size() + statements.size())));
    Interpreter interpreter(*context);
    for (const SourceText& source : sources) HEDDLE_TRY(interpreter.make_source(source));
    for (const Statement& statement : statements) HEDDLE_TRY(interpreter.run(statement));
    HEDDLE_TRY_ASSIGN(const Tensor* node, interpreter.tensor("dst"));
    return check_built_node(golden, *node);
}

/// Makes the headers and the memory of one case, step by step.
class RawBuilder {
public:
    RawBuilder(const OpCase& golden, Context& context) : golden_(golden), context_(context) {}

    Result<RawCase> make() {
        for (const Source& source : golden_.sources) {
            if (source.storage_of == source.slot) HEDDLE_TRY(make_owner(source));
        }
        for (const Source& source : golden_.sources) {
            const bool is_view = source.storage_of != source.slot && source.storage_of >= 0;
            if (is_view) HEDDLE_TRY(make_view(source));
        }
        HEDDLE_TRY(make_node());
        HEDDLE_TRY(mark_parameters());
        return std::move(raw_);
    }

private:
    static std::size_t index(int slot) { return static_cast<std::size_t>(slot); }

    static TensorSpec spec_of(const Layout& layout) {
        return {.type = layout.type, .extent = layout.extent, .stride = layout.stride};
    }

    /// A source that has a storage: it is the storage's root if it fills it, else a view of a root
    /// that stands for the bytes.
    Result<> make_owner(const Source& source) {
        Storage& storage = raw_.sources[index(source.slot)];
        storage = Storage(source.storage);
        const Layout& layout = source.layout;
        const bool is_root = layout.offset == 0 &&
                             layout.stride == dense_strides(layout.type, layout.extent) &&
                             byte_size(spec_of(layout)) == source.storage.size();
        Tensor*& root = roots_[index(source.slot)];
        if (is_root) {
            HEDDLE_TRY_ASSIGN(root, new_tensor(context_, spec_of(layout)));
        } else {
            const auto size = static_cast<std::int64_t>(source.storage.size());
            HEDDLE_TRY_ASSIGN(
                root, new_tensor(context_, TensorSpec::dense(GGML_TYPE_I8, {size, 1, 1, 1})));
        }
        root->data = storage.bytes().data();
        if (!is_root) return make_view(source);
        sources_[index(source.slot)] = root;
        return ok();
    }

    Result<> make_view(const Source& source) {
        Tensor& root = *roots_[index(source.storage_of)];
        HEDDLE_TRY_ASSIGN(Tensor * view, view_of(root, source.layout));
        sources_[index(source.slot)] = view;
        return ok();
    }

    Result<Tensor*> view_of(Tensor& root, const Layout& layout) {
        HEDDLE_TRY_ASSIGN(Tensor * view, new_tensor(context_, spec_of(layout)));
        view->view_src = &root;
        view->view_offs = layout.offset;
        view->data = static_cast<std::byte*>(root.data) + layout.offset;
        return view;
    }

    Result<> make_node() {
        const Recorded& result = golden_.result;
        if (result.view_of >= 0) {
            raw_.result_slot = golden_.source(result.view_of)->storage_of;
            HEDDLE_TRY_ASSIGN(raw_.node, view_of(*roots_[index(raw_.result_slot)], result.layout));
        } else {
            constexpr std::byte kUntouched{0x3C};
            HEDDLE_TRY_ASSIGN(const std::size_t size, end_of(result.layout));
            raw_.own = Storage(size, kUntouched);
            HEDDLE_TRY_ASSIGN(raw_.node, new_tensor(context_, spec_of(result.layout)));
            raw_.node->data = raw_.own.bytes().data();
        }
        HEDDLE_TRY_ASSIGN(raw_.node->op, op_named(golden_.op));
        std::memcpy(raw_.node->op_params, golden_.params.data(), sizeof golden_.params);
        raw_.node->flags |= GGML_TENSOR_FLAG_COMPUTE;
        for (const Source& source : golden_.sources) {
            const bool is_node = source.storage_of == Source::kNodeItself;
            raw_.node->src[source.slot] = is_node ? raw_.node : sources_[index(source.slot)];
        }
        return ok();
    }

    /// Optimiser steps want their weights marked, as the description does before it builds them.
    Result<> mark_parameters() {
        HEDDLE_TRY_ASSIGN(const auto statements,
                          parse_statements(split_description(golden_).calls));
        for (const Statement& statement : statements) {
            if (statement.expression.text != "ggml_set_param") continue;
            for (const Source& source : golden_.sources) {
                const bool is_meant =
                    statement.text == text("ggml_set_param(src", source.slot, ")");
                if (is_meant) sources_[index(source.slot)]->flags |= GGML_TENSOR_FLAG_PARAM;
            }
        }
        return ok();
    }

    static Result<Op> op_named(std::string_view name) {
        for (int number = 0; number < GGML_OP_COUNT; ++number) {
            const auto op = static_cast<Op>(number);
            if (name == ggml_op_name(op)) return op;
        }
        return failure(Errc::corrupt, "there is no op '", name, "'");
    }

    const OpCase& golden_;
    Context& context_;
    RawCase raw_;
    std::array<Tensor*, kMaxSources> roots_{};
    std::array<Tensor*, kMaxSources> sources_{};
};

}  // namespace

Result<OwnedContext> make_header_context(std::size_t tensors, std::size_t graph_capacity) {
    std::size_t size = tensors * kTensorOverhead;
    if (graph_capacity != 0) size += graph_overhead(graph_capacity, true);
    return make_context(size, nullptr, true);
}

Result<CaseProgram> program_of(const OpCase& golden) {
    const Description description = split_description(golden);
    CaseProgram program;
    HEDDLE_TRY_ASSIGN(program.sources, parse_sources(description.sources));
    HEDDLE_TRY_ASSIGN(program.statements, parse_statements(description.calls));
    return program;
}

Result<> check_build(const OpCase& golden) {
    auto result = build_and_check(golden);
    if (result) return ok();
    return std::move(result).error().within(text(golden.name, " (", golden.description, ")"));
}

Storage::Storage(std::span<const std::byte> content) : Storage(content.size(), std::byte{0}) {
    std::ranges::copy(content, bytes().begin());
}

Storage::Storage(std::size_t size, std::byte fill) : lines_(size / sizeof(Line) + 1), size_(size) {
    std::ranges::fill(bytes(), fill);
}

Result<OwnedContext> make_raw_context(const OpCase& golden) {
    // A source may need a root beside itself; one more for the node.
    return make_header_context(2 * golden.sources.size() + 1);
}

Result<RawCase> make_raw_node(const OpCase& golden, Context& context) {
    auto raw = RawBuilder(golden, context).make();
    if (!raw) return std::move(raw).error().within(golden.name);
    return raw;
}

}  // namespace heddle::golden
