#include "backends/cuda/formats/all.cuh"
#include "backends/cuda/kernels/products/operands.cuh"
#include "ggml/op_list.h"

namespace heddle::cuda {

std::string_view product_objection(const Tensor& node) {
    const Tensor &a = *node.src[0], &b = *node.src[1];
    if (!has_format(a.type)) return "the type of the weights has no decoder";
    if (b.type != GGML_TYPE_F32 && !(b.type == GGML_TYPE_F16 && a.type == GGML_TYPE_F16))
        return "b is neither f32 nor, with f16 weights, f16";
    if (node.type != GGML_TYPE_F32 || !is_contiguous(node)) return "the result is not dense f32";
    if (a.ne[0] > 0 && a.nb[0] != size_of(a.type)) return "rows of the weights are not dense";
    if (b.ne[0] > 0 && b.nb[0] != size_of(b.type)) return "rows of b are not dense";
    if (node.op != GGML_OP_MUL_MAT_ID) return {};
    const Tensor& ids = *node.src[2];
    if (ids.type != GGML_TYPE_I32 || ids.nb[0] != sizeof(std::int32_t) ||
        ids.nb[1] % sizeof(std::int32_t) != 0)
        return "ids are not rows of dense i32";
    return {};
}

void launch_zeros(const Tensor& node, const Launch& launch) {
    cudaMemsetAsync(node.data, 0, byte_size(node), launch.stream);
}

}  // namespace heddle::cuda
