#include "backends/cpu/kernels/movement/copy_units.hpp"
#include "ops/acc_set.hpp"

namespace heddle::cpu {
namespace {

using Params = ops::RegionOp::Params;

/// The part of the result that b is written to, as a tensor. Strides of dimensions of extent 1 may
/// be anything and are not kept.
Tensor region_of(const Tensor& node) {
    const auto params = unpack<Params>(node);
    const Tensor& b = *node.src[1];
    Tensor region = node;
    const std::int32_t strides[kMaxDims] = {static_cast<std::int32_t>(size_of(node.type)),
                                            params.nb1, params.nb2, params.nb3};
    for (int d = 0; d < kMaxDims; ++d) {
        region.ne[d] = b.ne[d];
        region.nb[d] = b.ne[d] == 1 ? 0 : static_cast<std::size_t>(strides[d]);
    }
    region.nb[0] = size_of(node.type);
    if (node.data != nullptr) region.data = static_cast<std::byte*>(node.data) + params.offset;
    return region;
}

std::string_view region_objection(const Tensor& node) {
    const Tensor &a = *node.src[0], &b = *node.src[1];
    if (a.type != node.type || b.type != node.type) return "a, b and the result differ in type";
    if (!same_shape(a, node)) return "the result does not have the extents of a";
    if (!is_contiguous(a) || !is_contiguous(node)) return "a or the result is not contiguous";
    if (!has_dense_rows(b)) return "rows of b are not dense";
    if (!ops::RegionOp::is_inside(unpack<Params>(node), b, byte_size(node)))
        return "the region is not made of elements of the result";
    return {};
}

/// The result starts as a copy of a, unless it is a.
void copy_first(const Tensor& node, const Task& task) {
    if (unpack<Params>(node).in_place != 0) return;
    const Tensor& a = *node.src[0];
    run_copy(Copy::of_bits(node.type, Layout::of(a), Layout::of(node)), task);
    task.sync();
}

std::string_view set_objection(const Tensor& node) {
    if (node.type != GGML_TYPE_F32 && node.type != GGML_TYPE_I32) return "only f32 and i32";
    return region_objection(node);
}

void set(const Tensor& node, const Task& task) {
    copy_first(node, task);
    run_copy(Copy::of_bits(node.type, Layout::of(*node.src[1]), Layout::of(region_of(node))), task);
}

std::string_view acc_objection(const Tensor& node) {
    return node.type == GGML_TYPE_F32 ? region_objection(node) : "only f32";
}

void acc(const Tensor& node, const Task& task) {
    copy_first(node, task);
    const Tensor& b = *node.src[1];
    const Tensor region = region_of(node);
    for_rows(b, task.share(row_count(b)), [&](const Row& row) {
        const float* from = row_at<const float>(b, row);
        float* to = row_at<float>(region, row);
        for (std::int64_t i = 0; i < b.ne[0]; ++i) to[i] += from[i];
    });
}

Demand demand(const Tensor& node, int threads) {
    if (threads <= 1) return {};
    const bool copies = unpack<Params>(node).in_place == 0;
    const double bytes = (copies ? 2.0 * static_cast<double>(byte_size(node)) : 0.0) +
                         3.0 * static_cast<double>(byte_size(*node.src[1]));
    return {.tasks = worthwhile_tasks(bytes, 0, row_count(copies ? node : *node.src[1]), threads)};
}

}  // namespace

extern const Kernel kSet{
    .name = "set", .op = ops::Set::id, .objection = set_objection, .run = set, .demand = demand};
extern const Kernel kAcc{
    .name = "acc", .op = ops::Acc::id, .objection = acc_objection, .run = acc, .demand = demand};

}  // namespace heddle::cpu
