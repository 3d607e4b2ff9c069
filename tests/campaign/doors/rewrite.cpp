#include "rewrite.hpp"

#include "ggml/op_list.h"
#include "ops/custom.hpp"

namespace heddle::campaign {
namespace {

/// The node or one of its sources.
struct Part {
    Tensor* tensor;
    std::string name;
};

Part any_part(Tensor& node, Choices& choices) {
    const std::uint32_t slot = choices.below(kMaxSources + 1);
    Tensor* source = slot > 0 ? node.src[slot - 1] : nullptr;
    if (source == nullptr) return {&node, "node"};
    return {source, text("src", slot - 1)};
}

std::size_t any_dimension(Choices& choices) { return choices.below(kMaxDims); }

void change_word(Tensor& node, Choices& choices, Trace& trace) {
    constexpr std::uint32_t kWords = GGML_MAX_OP_PARAMS / 4;
    // Few ops have more than eight.
    const std::uint32_t word = choices.one_in(4) ? choices.below(kWords) : choices.below(8);
    std::int32_t& value = node.op_params[word];
    constexpr std::int32_t kNaN = 0x7FC00000, kInfinity = 0x7F800000, kOne = 0x3F800000;
    const std::int32_t before = value;
    value = choices.one_in(3)
                ? choices.pick({kOne, kNaN, kInfinity, static_cast<std::int32_t>(~0U << 31)})
                : static_cast<std::int32_t>(other_value(value, choices));
    trace.line("node->op_params[", word, "] = ", value, ";  // was ", before);
}

void change_extent(Tensor& node, Choices& choices, Trace& trace) {
    const auto [tensor, name] = any_part(node, choices);
    const std::size_t d = any_dimension(choices);
    const std::int64_t before = tensor->ne[d];
    tensor->ne[d] = other_value(before, choices);
    trace.line(name, "->ne[", d, "] = ", tensor->ne[d], ";  // was ", before);
    // A caller that changes extents may keep the strides, or make them anew.
    if (!choices.one_in(2) || tensor->type < 0 || tensor->type >= GGML_TYPE_COUNT) return;
    const Strides dense = dense_strides(tensor->type, extents_of(*tensor));
    std::copy(dense.begin(), dense.end(), tensor->nb);
    trace.line(name, "->nb = those of a dense tensor");
}

void change_stride(Tensor& node, Choices& choices, Trace& trace) {
    const auto [tensor, name] = any_part(node, choices);
    const std::size_t d = any_dimension(choices);
    const std::size_t before = tensor->nb[d];
    tensor->nb[d] =
        static_cast<std::size_t>(other_value(static_cast<std::int64_t>(before), choices));
    trace.line(name, "->nb[", d, "] = ", tensor->nb[d], ";  // was ", before);
}

void change_type(Tensor& node, Choices& choices, Trace& trace) {
    const auto [tensor, name] = any_part(node, choices);
    const int before = tensor->type;
    const int type = choices.one_in(10) ? choices.pick({-1, GGML_TYPE_COUNT + 0, 1 << 30})
                                        : static_cast<int>(choices.below(GGML_TYPE_COUNT));
    tensor->type = static_cast<Type>(type);
    trace.line(name, "->type = ", type, ";  // was ", before);
    if (!choices.one_in(2) || type < 0 || type >= GGML_TYPE_COUNT) return;
    const Strides dense = dense_strides(tensor->type, extents_of(*tensor));
    std::copy(dense.begin(), dense.end(), tensor->nb);
    trace.line(name, "->nb = those of a dense tensor");
}

void change_op(Tensor& node, Choices& choices, Trace& trace) {
    const int op = choices.one_in(10) ? choices.pick({-1, GGML_OP_COUNT + 0, 9999})
                                      : static_cast<int>(choices.below(GGML_OP_COUNT));
    // The words of these are addresses of functions, which nobody can check.
    if (ops::runs_callers_function(static_cast<Op>(op))) return;
    node.op = static_cast<Op>(op);
    trace.line("node->op = ", op, ";  // ", ggml_op_name(node.op));
}

void change_source(Tensor& node, Choices& choices, Trace& trace) {
    const std::uint32_t slot = choices.below(kMaxSources);
    const std::uint32_t from = choices.below(kMaxSources + 2);
    Tensor* source = from == 0 ? nullptr : from == 1 ? &node : node.src[from - 2];
    node.src[slot] = source;
    trace.line("node->src[", slot, "] = ",
               from == 0   ? std::string("NULL")
               : from == 1 ? "node"
                           : text("src", from - 2),
               ";");
}

void change_flags(Tensor& node, Choices& choices, Trace& trace) {
    const auto [tensor, name] = any_part(node, choices);
    tensor->flags = static_cast<std::int32_t>(choices.below(64)) | GGML_TENSOR_FLAG_COMPUTE;
    trace.line(name, "->flags = ", tensor->flags, ";");
}

void change_view(Tensor& node, Choices& choices, Trace& trace) {
    const auto [tensor, name] = any_part(node, choices);
    if (tensor->view_src == nullptr || choices.one_in(2)) {
        Tensor* root = node.src[choices.below(3)];
        if (root == tensor) root = nullptr;
        // A view is never of a view.
        tensor->view_src = root != nullptr && root->view_src != nullptr ? root->view_src : root;
        if (tensor->view_src == tensor) tensor->view_src = nullptr;
        trace.line(name, "->view_src = ", root == nullptr ? "NULL;" : "that of another source;");
        return;
    }
    tensor->view_offs = static_cast<std::size_t>(
        other_value(static_cast<std::int64_t>(tensor->view_offs), choices));
    trace.line(name, "->view_offs = ", tensor->view_offs, ";");
}

using Change = void (*)(Tensor& node, Choices& choices, Trace& trace);

// Those that find most are there more than once.
constexpr Change kChanges[] = {change_word,   change_extent, change_word,   change_extent,
                               change_stride, change_type,   change_source, change_word,
                               change_extent, change_op,     change_view,   change_flags};

}  // namespace

void rewrite_field(Tensor& node, Choices& choices, Trace& trace) {
    choices.pick(std::span<const Change>(kChanges))(node, choices, trace);
}

std::int64_t other_value(std::int64_t value, Choices& choices) {
    // Unsigned: absurd values wrap around, and may.
    const auto v = static_cast<std::uint64_t>(value);
    switch (choices.below(16)) {
        case 0:
            return 0;
        case 1:
            return 1;
        case 2:
            return -1;
        case 3:
            return static_cast<std::int64_t>(v + 1);
        case 4:
            return static_cast<std::int64_t>(v - 1);
        case 5:
            return static_cast<std::int64_t>(2 * v);
        case 6:
            return value / 2;
        case 7:
            return static_cast<std::int64_t>(choices.below(64));
        case 8:
            return choices.pick<std::int64_t>({INT32_MAX, INT32_MIN, 1 << 30, 1 << 29});
        case 9:
            return std::int64_t{1} << choices.below(63);
        case 10:
            return INT64_MIN;
        case 11:
            return INT64_MAX;
        case 12:
            return static_cast<std::int64_t>(0 - v);
        case 13:
            return static_cast<std::int64_t>(choices.bits());
        default:
            return choices.between(2, 9);
    }
}

std::size_t claimed_bytes(const Tensor& tensor) {
    const bool exists = tensor.type >= 0 && tensor.type < GGML_TYPE_COUNT;
    const std::int64_t block = exists ? ggml_blck_size(tensor.type) : 1;
    if (block <= 0) return 0;
    std::size_t end = exists ? ggml_type_size(tensor.type) : 1;
    for (int d = 0; d < kMaxDims; ++d) {
        if (tensor.ne[d] <= 0) return 0;
        // A last block that is not whole counts: who reads it reads all of it.
        const std::int64_t steps = d == 0 ? (tensor.ne[0] - 1) / block : tensor.ne[d] - 1;
        std::size_t length = 0;
        if (__builtin_mul_overflow(static_cast<std::size_t>(steps), tensor.nb[d], &length) ||
            length >= kEndless - end) {
            return kEndless;
        }
        end += length;
    }
    return end;
}

}  // namespace heddle::campaign
