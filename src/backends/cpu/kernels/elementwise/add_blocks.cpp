#include <algorithm>

#include "backends/cpu/kernels/elementwise/broadcast.hpp"
#include "ggml/op_list.h"
#include "quant/codec.hpp"
#include "quant/traits.hpp"

namespace heddle::cpu {
namespace {

/// Elements taken through a buffer at a time: whole blocks of every format.
constexpr std::int64_t kBuffered = 1024;

/// Whether results of this type can be written from floats.
bool can_write(Type type, Type type_a) {
    if (type == GGML_TYPE_F32 || type == GGML_TYPE_F16) return true;
    return type == type_a && quant::codec_of(type)->encode != nullptr;
}

void write(Type type, const float* values, std::byte* to, std::int64_t n) {
    if (type == GGML_TYPE_F32) {
        std::copy_n(values, n, reinterpret_cast<float*>(to));
    } else if (type == GGML_TYPE_F16) {
        quant::f32_to_f16_row(values, to, n);
    } else {
        quant::codec_of(type)->encode(values, to, n);
    }
}

std::string_view objection(const Tensor& node) {
    const Tensor &a = *node.src[0], &b = *node.src[1];
    const quant::Codec* codec = quant::codec_of(a.type);
    if (codec == nullptr) return "a is not of a block format";
    if (kBuffered % block_size(a.type) != 0) return "blocks of a are too large";
    if (b.type != GGML_TYPE_F32) return "b is not f32";
    if (!can_write(node.type, a.type)) return "the result cannot be written in its type";
    if (!has_packed_rows(a) || !has_packed_rows(node))
        return "rows of a or the result are not dense";
    if (!same_shape(node, a)) return "the result does not have the extents of a";
    return {};
}

std::string_view add_objection(const Tensor& node) {
    if (const std::string_view reason = objection(node); !reason.empty()) return reason;
    const Tensor &a = *node.src[0], &b = *node.src[1];
    if (!same_shape(b, a)) return "b is not repeated when a has a block format";
    if (!has_packed_rows(b)) return "rows of b are not dense";
    return {};
}

std::string_view add1_objection(const Tensor& node) {
    if (!is_scalar(*node.src[1])) return "b is not a single value";
    if (node.type != node.src[0]->type) return "the result does not have the type of a";
    return objection(node);
}

/// Decodes a piece of each row, has `add(values, row, first, n)` add to it, and encodes it again.
template <class Add>
void add_rows(const Tensor& node, const Task& task, Add&& add) {
    const Tensor& a = *node.src[0];
    const quant::Codec& codec = *quant::codec_of(a.type);
    for_rows(node, task.share(row_count(node)), [&](const Row& row) {
        float values[kBuffered];
        for (std::int64_t i = 0; i < node.ne[0]; i += kBuffered) {
            const std::int64_t n = std::min(kBuffered, node.ne[0] - i);
            codec.decode(row_at(a, row) + row_size(a.type, i), values, n);
            add(values, row, i, n);
            write(node.type, values, row_at(node, row) + row_size(node.type, i), n);
        }
    });
}

void run_add(const Tensor& node, const Task& task) {
    const Tensor& b = *node.src[1];
    add_rows(node, task, [&](float* values, Row row, std::int64_t first, std::int64_t n) {
        const float* from = row_at<const float>(b, row) + first;
        for (std::int64_t i = 0; i < n; ++i) values[i] += from[i];
    });
}

void run_add1(const Tensor& node, const Task& task) {
    const float added = *static_cast<const float*>(node.src[1]->data);
    add_rows(node, task, [&](float* values, Row, std::int64_t, std::int64_t n) {
        for (std::int64_t i = 0; i < n; ++i) values[i] += added;
    });
}

/// Encoding costs far more than moving the bytes.
Demand demand(const Tensor& node, int threads) {
    if (threads <= 1) return {};
    const double flops = 20.0 * static_cast<double>(element_count(node));
    return {.tasks = worthwhile_tasks(0, flops, row_count(node), threads)};
}

}  // namespace

extern const Kernel kAddBlocks{.name = "add_blocks",
                               .op = GGML_OP_ADD,
                               .objection = add_objection,
                               .run = run_add,
                               .demand = demand,
                               .rank = Rank::rest};
extern const Kernel kAdd1Blocks{.name = "add1_blocks",
                                .op = GGML_OP_ADD1,
                                .objection = add1_objection,
                                .run = run_add1,
                                .demand = demand,
                                .rank = Rank::rest};

}  // namespace heddle::cpu
