#include "ops/roll.hpp"

#include <cstring>

#include "backends/cpu/kernel.hpp"
#include "ggml/op_list.h"

namespace heddle::cpu {
namespace {

std::string_view objection(const Tensor& node) {
    const Tensor& x = *node.src[0];
    if (x.type != node.type) return "x and the result differ in type";
    if (block_size(x.type) != 1) return "blocks cannot be rolled";
    if (!same_shape(x, node)) return "the result does not have the extents of x";
    if (x.nb[0] != size_of(x.type)) return "rows of x are not dense";
    if (node.nb[0] != size_of(node.type)) return "rows of the result are not dense";
    const auto shift = unpack<ops::Roll::Params>(node).shift;
    for (std::size_t d = 0; d < kMaxDims; ++d) {
        if (shift[d] >= x.ne[d] || -std::int64_t{shift[d]} >= x.ne[d]) return "a shift is too far";
    }
    return {};
}

std::int64_t wrap(std::int64_t i, std::int64_t n) { return i < 0 ? i + n : i >= n ? i - n : i; }

/// Moves each row in two pieces. It copies bytes, so it serves every type that is not made of
/// blocks.
void run(const Tensor& node, const Task& task) {
    const auto [s0, s1, s2, s3] = unpack<ops::Roll::Params>(node).shift;
    const Tensor& x = *node.src[0];
    const std::size_t tail = static_cast<std::size_t>(wrap(s0, x.ne[0])) * size_of(x.type);
    const std::size_t head = row_size(x.type, x.ne[0]) - tail;
    for_rows(node, task.share(row_count(node)), [&, s1 = s1, s2 = s2, s3 = s3](const Row& row) {
        std::byte* to = row_at(node, row);
        const std::byte* from = at(x, 0, wrap(row.i1 - s1, x.ne[1]), wrap(row.i2 - s2, x.ne[2]),
                                   wrap(row.i3 - s3, x.ne[3]));
        std::memcpy(to + tail, from, head);
        std::memcpy(to, from + head, tail);
    });
}

}  // namespace

extern const Kernel kRoll{
    .name = "roll_bytes", .op = GGML_OP_ROLL, .objection = objection, .run = run};

}  // namespace heddle::cpu
