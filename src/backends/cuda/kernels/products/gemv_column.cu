#include "backends/cuda/kernels/products/dot_float.cuh"
#include "backends/cuda/kernels/products/dot_k.cuh"
#include "backends/cuda/kernels/products/gemv_column.cuh"
#include "backends/cuda/kernels/products/gemv_column.hpp"
#include "ops/norm.hpp"

namespace heddle::cuda {
namespace {

/// Calls `body` with the `Dot` of the type, whichever kind it is.
template <class Body>
bool dispatch_column(ggml_type type, Body&& body) {
    return dispatch_dot(type, body) || dispatch_float(type, body);
}

const float* floats(const Tensor& tensor) { return static_cast<const float*>(tensor.data); }

ColumnArguments arguments_of(const ColumnGroup& group) {
    ColumnArguments a{};
    a.count = group.count;
    a.depth = static_cast<int>(group.products[0]->src[0]->ne[0]);
    a.x = floats(group.activations());
    if (group.norm != nullptr) {
        a.norm_weight = floats(group.norm_weights());
        a.eps = unpack<ops::RmsNorm::Params>(*group.norm).eps;
    }
    for (int i = 0; i < group.count; ++i) {
        const Tensor& weights = *group.products[static_cast<std::size_t>(i)]->src[0];
        ColumnMatrix& m = a.matrices[i];
        m.weights = static_cast<const std::uint8_t*>(weights.data);
        m.row_stride = static_cast<std::int64_t>(weights.nb[1]);
        m.rows = static_cast<int>(weights.ne[1]);
        m.y = static_cast<float*>(group.result(i).data);
        m.addend = group.sum != nullptr ? floats(group.addend()) : nullptr;
    }
    a.is_gated = group.gate != nullptr;
    if (a.is_gated) a.gate = unpack<ops::Glu::Params>(*group.gate);
    return a;
}

}  // namespace

std::string_view column_objection(const Tensor& product, const DeviceFacts& device) {
    const Tensor &w = *product.src[0], &x = *product.src[1];
    if (product.op != GGML_OP_MUL_MAT) return "not a product";
    if (row_count(product) != 1 || row_count(x) != 1) return "more than one column";
    if (w.ne[2] != 1 || w.ne[3] != 1) return "more than one matrix";
    if (x.type != GGML_TYPE_F32 || product.type != GGML_TYPE_F32) return "not f32";
    if (x.nb[0] != sizeof(float) || product.nb[0] != sizeof(float))
        return "the column is not dense";
    if (device.architecture < 900) return "the device has no bulk copies";
    if (w.ne[1] < 1 || w.ne[1] > INT32_MAX / 4 || w.ne[0] < 1) return "empty, or too many rows";
    if (!is_aligned(x.data, 16)) return "the column is not aligned to 16 bytes";
    std::string_view reason;
    const bool known = dispatch_column(w.type, [&](auto dot) {
        using D = decltype(dot);
        if (w.ne[0] % D::kDepthUnit != 0 || w.ne[0] % 4 != 0) {
            reason = "rows are no whole number of the groups that lanes take";
        } else if (w.nb[0] != size_of(w.type)) {
            reason = "rows of weights are not dense";
        } else if (!is_aligned(w.data, D::kAlignment) || w.nb[1] % D::kAlignment != 0) {
            reason = "rows of weights do not begin at whole words";
        } else if (w.ne[0] > (std::int64_t{1} << 17) ||
                   column_slots<D>(static_cast<int>(w.ne[0]), device.shared_per_block) == 0) {
            reason = "rows are too long for shared memory";
        }
    });
    return known ? reason : "no dot product for this type";
}

void launch_columns(const ColumnGroup& group, const Launch& launch) {
    dispatch_column(group.products[0]->src[0]->type,
                    [&](auto dot) { launch_column<decltype(dot)>(arguments_of(group), launch); });
}

}  // namespace heddle::cuda
