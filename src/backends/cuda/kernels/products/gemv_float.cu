#include "backends/cuda/kernels/products/dot_float.cuh"
#include "backends/cuda/kernels/products/gemv.cuh"
#include "ggml/op_list.h"

/// Matrix-vector products of float weights with f32 activations.
namespace heddle::cuda {
namespace {

std::string_view weights_objection(const Tensor& a) {
    std::string_view reason;
    const bool known = dispatch_float(a.type, [&](auto dot) {
        using D = decltype(dot);
        if (a.ne[0] % D::kDepthUnit != 0)
            reason = "rows are no multiple of 4 elements";
        else if (!has_aligned_strides(a, D::kAlignment))
            reason = "rows of weights do not begin at groups of 4 elements";
        else if (a.ne[0] > (std::int64_t{1} << 15))
            reason = "rows are too long for shared memory";
    });
    return known ? reason : "weights are not f32, f16 or bf16";
}

std::string_view mul_mat_objection(const Tensor& node) {
    if (const auto reason = product_objection(node); !reason.empty()) return reason;
    if (columns_per_matrix(node) > kMostColumns) return "more than 8 columns";
    return weights_objection(*node.src[0]);
}

std::string_view mul_mat_id_objection(const Tensor& node) {
    if (const auto reason = product_objection(node); !reason.empty()) return reason;
    if (node.ne[2] > kMostColumns) return "more than 8 tokens";
    return weights_objection(*node.src[0]);
}

bool can_run(const Tensor& a, const Launch& launch) {
    bool fits = false;
    dispatch_float(a.type, [&](auto dot) {
        using D = decltype(dot);
        fits = is_aligned(a.data, D::kAlignment) &&
               ring_fits<D>(a.ne[0], launch.device.shared_per_block);
    });
    return fits && has_bulk_copies(launch);
}

void launch_mul_mat(const Tensor& node, const Launch& launch) {
    if (is_empty(node)) return;
    if (node.src[0]->ne[0] == 0) return launch_zeros(node, launch);
    if (!can_run(*node.src[0], launch)) return launch_gemv_decode(node, launch);
    dispatch_float(node.src[0]->type,
                   [&](auto dot) { launch_ring<decltype(dot)>(mul_mat_arguments(node), launch); });
}

void launch_mul_mat_id(const Tensor& node, const Launch& launch) {
    if (is_empty(node)) return;
    if (node.src[0]->ne[0] == 0) return launch_zeros(node, launch);
    if (!can_run(*node.src[0], launch)) return kMulMatIdGeneric.launch(node, launch);
    dispatch_float(node.src[0]->type, [&](auto dot) {
        launch_ring<decltype(dot)>(mul_mat_id_arguments(node, launch), launch);
    });
}

}  // namespace

const Kernel kGemvFloat{"gemv_float", GGML_OP_MUL_MAT, mul_mat_objection, nullptr, launch_mul_mat};
const Kernel kMulMatIdFloat{"mul_mat_id_gemv_float", GGML_OP_MUL_MAT_ID, mul_mat_id_objection,
                            nullptr, launch_mul_mat_id};

}  // namespace heddle::cuda
