#include "ops/roll.hpp"

#include <cstring>

#include "backends/cpu/kernel.hpp"

namespace heddle::cpu {
namespace {

std::string_view objection(const Tensor& node) {
    return node.src[0]->nb[0] == size_of(node.src[0]->type) ? "" : "rows of x are not dense";
}

std::int64_t wrap(std::int64_t i, std::int64_t n) { return i < 0 ? i + n : i >= n ? i - n : i; }

/// Moves each row in two pieces. It copies bytes, so it serves every type.
void run(const Tensor& node, const Task& task) {
    const auto [s0, s1, s2, s3] = unpack<ops::Roll::Params>(node).shift;
    const Tensor& x = *node.src[0];
    const std::size_t tail = static_cast<std::size_t>(wrap(s0, x.ne[0])) * size_of(x.type);
    const std::size_t head = row_size(x.type, x.ne[0]) - tail;
    for_rows(node, task.share(row_count(node)), [&, s1 = s1, s2 = s2, s3 = s3](Row row) {
        std::byte* to = row_at(node, row);
        const std::byte* from = at(x, 0, wrap(row.i1 - s1, x.ne[1]), wrap(row.i2 - s2, x.ne[2]),
                                   wrap(row.i3 - s3, x.ne[3]));
        std::memcpy(to + tail, from, head);
        std::memcpy(to, from + head, tail);
    });
}

}  // namespace

extern const Kernel kRoll{.name = "roll_bytes", .op = GGML_OP_ROLL, .objection = objection, .run = run};

}  // namespace heddle::cpu
