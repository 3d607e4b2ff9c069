#include "ops/concat.hpp"

#include "backends/cpu/kernels/movement/copy_units.hpp"

namespace heddle::cpu {
namespace {

std::string_view objection(const Tensor& node) {
    const Tensor &x = *node.src[0], &y = *node.src[1];
    const std::int32_t dim = unpack<ops::Concat::Params>(node).dim;
    if (dim < 0 || dim >= kMaxDims) return "there is no such dimension";
    if (x.type != y.type || x.type != node.type) return "x, y and the result differ in type";
    for (int d = 0; d < kMaxDims; ++d) {
        const std::int64_t extent = d == dim ? x.ne[d] + y.ne[d] : x.ne[d];
        if (node.ne[d] != extent || (d != dim && y.ne[d] != extent)) {
            return "the extents of x and y do not make up those of the result";
        }
    }
    const std::int64_t block = block_size(x.type);
    if (x.ne[0] % block != 0 || y.ne[0] % block != 0) return "rows are not whole blocks";
    return {};
}

/// `part` to where it belongs in the result, which begins `skipped` elements along `dim`.
Copy copy_of(const Tensor& node, const Tensor& part, int dim, std::int64_t skipped) {
    Tensor target = node;
    for (int d = 0; d < kMaxDims; ++d) target.ne[d] = part.ne[d];
    if (target.data != nullptr && !is_empty(part)) {
        const std::int64_t units = dim == 0 ? skipped / block_size(node.type) : skipped;
        target.data =
            static_cast<std::byte*>(node.data) + static_cast<std::size_t>(units) * node.nb[dim];
    }
    return Copy::of_bits(node.type, Layout::of(part), Layout::of(target));
}

void run(const Tensor& node, const Task& task) {
    const std::int32_t dim = unpack<ops::Concat::Params>(node).dim;
    const Tensor &x = *node.src[0], &y = *node.src[1];
    run_copy(copy_of(node, x, dim, 0), task);
    run_copy(copy_of(node, y, dim, x.ne[dim]), task);
}

Demand demand(const Tensor& node, int threads) {
    if (threads <= 1) return {};
    const double bytes = 2.0 * static_cast<double>(byte_size(node));
    return {.tasks = worthwhile_tasks(bytes, 0, element_count(node), threads)};
}

}  // namespace

extern const Kernel kConcat{
    .name = "concat", .op = ops::Concat::id, .objection = objection, .run = run, .demand = demand};

}  // namespace heddle::cpu
