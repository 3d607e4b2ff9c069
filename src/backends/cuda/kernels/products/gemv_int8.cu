#include "backends/cuda/kernels/products/dot_k.cuh"
#include "backends/cuda/kernels/products/gemv.cuh"
#include "ggml/op_list.h"

/// Matrix-vector products of block formats with activations of eight bits.
namespace heddle::cuda {
namespace {

std::string_view weights_objection(const Tensor& a) {
    std::string_view reason;
    const bool known = dispatch_dot(a.type, [&](auto dot) {
        using D = decltype(dot);
        if (a.ne[0] % D::kDepthUnit != 0)
            reason = "rows are no whole number of the groups that lanes take";
        else if (!has_aligned_strides(a, D::kAlignment))
            reason = "rows of weights do not begin at whole words";
        else if (a.ne[0] > (std::int64_t{1} << 17))
            reason = "rows are too long for shared memory";
    });
    return known ? reason : "no integer dot product for this type";
}

std::string_view mul_mat_objection(const Tensor& node) {
    if (const auto reason = product_objection(node); !reason.empty()) return reason;
    if (columns_per_matrix(node) > kMostColumns) return "more than 8 columns";
    if (node.src[1]->type != GGML_TYPE_F32) return "b is not f32";
    return weights_objection(*node.src[0]);
}

std::string_view mul_mat_id_objection(const Tensor& node) {
    if (const auto reason = product_objection(node); !reason.empty()) return reason;
    if (node.ne[2] > kMostColumns) return "more than 8 tokens";
    if (node.src[1]->type != GGML_TYPE_F32) return "b is not f32";
    return weights_objection(*node.src[0]);
}

/// Whether the ring can run after all; it depends on what only the launch knows.
bool can_run(const Tensor& node, const Launch& launch) {
    const Tensor& a = *node.src[0];
    bool fits = false;
    dispatch_dot(a.type, [&](auto dot) {
        using D = decltype(dot);
        fits = is_aligned(a.data, D::kAlignment) &&
               ring_fits<D>(a.ne[0], launch.device.shared_per_block);
    });
    return fits && has_bulk_copies(launch);
}

void run(const Tensor& node, const GemvArguments& arguments, const Launch& launch) {
    dispatch_dot(node.src[0]->type,
                 [&](auto dot) { launch_ring<decltype(dot)>(arguments, launch); });
}

void launch_mul_mat(const Tensor& node, const Launch& launch) {
    if (is_empty(node)) return;
    if (node.src[0]->ne[0] == 0) return launch_zeros(node, launch);
    if (!can_run(node, launch)) return launch_gemv_decode(node, launch);
    run(node, mul_mat_arguments(node), launch);
}

void launch_mul_mat_id(const Tensor& node, const Launch& launch) {
    if (is_empty(node)) return;
    if (node.src[0]->ne[0] == 0) return launch_zeros(node, launch);
    if (!can_run(node, launch)) return kMulMatIdGeneric.launch(node, launch);
    run(node, mul_mat_id_arguments(node, launch), launch);
}

}  // namespace

const Kernel kGemvInt8{"gemv_int8", GGML_OP_MUL_MAT, mul_mat_objection, nullptr, launch_mul_mat};
const Kernel kMulMatIdInt8{"mul_mat_id_gemv_int8", GGML_OP_MUL_MAT_ID, mul_mat_id_objection,
                           nullptr, launch_mul_mat_id};

}  // namespace heddle::cuda
