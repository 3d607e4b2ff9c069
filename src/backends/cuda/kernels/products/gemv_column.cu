#include "backends/cuda/kernels/products/dot_column_float.cuh"
#include "backends/cuda/kernels/products/dot_k.cuh"
#include "backends/cuda/kernels/products/gemv_column.cuh"
#include "backends/cuda/kernels/products/gemv_column.hpp"
#include "backends/cuda/kernels/products/gemv_column_launch.cuh"
#include "ggml/op_list.h"
#include "ops/norm.hpp"

namespace heddle::cuda {
namespace {

/// Calls `body` with the `Dot` of the type, whichever kind it is.
template <class Body>
bool dispatch_column(ggml_type type, Body&& body) {
    return dispatch_dot(type, body) || dispatch_column_float(type, body);
}

const float* floats(const Tensor& tensor) { return static_cast<const float*>(tensor.data); }

/// ROPE, SET_ROWS, or both.
void add_end(const RopeStore& end, ColumnMatrix& m) {
    if (end.rope != nullptr) {
        m.end.is_turned = true;
        m.end.rotation = Rotation(*end.rope);
        m.end.positions = operand(end.rope->src[1]);
        m.end.factors = operand(end.rope->src[2]);
        m.head_pairs = static_cast<int>(end.rope->ne[0] / 2);
        m.turned_pairs = static_cast<int>(m.end.rotation.pairs);
        m.distance = static_cast<int>(m.end.rotation.distance);
    }
    if (end.store == nullptr) return;
    m.end.indices = operand(end.store->src[1]);
    m.end.row_stride = static_cast<std::int64_t>(end.store->nb[1]);
    m.end.stored_rows = end.store->ne[1];
}

ColumnArguments arguments_of(const ColumnGroup& group, const Launch& launch) {
    ColumnArguments a{};
    a.count = group.count;
    a.depth = static_cast<int>(group.products[0]->src[0]->ne[0]);
    a.inverse_depth = 1.0f / static_cast<float>(a.depth);
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
        m.pairs = (m.rows + 1) / 2;
        m.end.y = static_cast<std::byte*>(group.result(i).data);
        m.end.type = group.result(i).type;
        m.end.addend = group.sum != nullptr ? floats(group.addend()) : nullptr;
        add_end(group.ends[static_cast<std::size_t>(i)], m);
    }
    a.is_gated = group.gate != nullptr;
    if (a.is_gated) a.gate = unpack<ops::Glu::Params>(*group.gate);
    a.reads_ahead = launch.reads_ahead;
    a.taken = launch.taken;
    a.left = launch.left;
    if (launch.left_weights != nullptr) a.left_weight = floats(*launch.left_weights);
    a.has_early_inputs = group.has_early_inputs;
    a.is_index_inside = {launch.faults, GGML_OP_SET_ROWS};
    return a;
}

}  // namespace

std::string_view column_objection(const Tensor& product, const DeviceFacts& device) {
    const Tensor &w = *product.src[0], &x = *product.src[1];
    if (product.op != GGML_OP_MUL_MAT) return "not a product";
    if (row_count(product) != 1 || row_count(x) != 1) return "there are several columns";
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
                   ColumnPlan::of<D>(static_cast<int>(w.ne[0]), device.shared_per_block).slots ==
                       0) {
            reason = "rows are too long for shared memory";
        }
    });
    return known ? reason : "no dot product for this type";
}

std::string_view end_objection(const ColumnGroup& group, int i, const RopeStore& end,
                               const DeviceFacts& device) {
    std::int64_t pairs = 0;
    for (int k = 0; k < group.count; ++k)
        pairs += (group.products[static_cast<std::size_t>(k)]->ne[0] + 1) / 2;
    // Angles of all pairs of a block are taken at once.
    if (pairs > std::int64_t{device.multiprocessors} * ColumnExtras::kPairs) return "too many rows";
    const std::int64_t rows = group.products[static_cast<std::size_t>(i)]->ne[0];
    const Tensor& result = end.result();
    if (!is_float(result) || result.nb[0] != size_of(result.type)) return "not dense floats";
    if (end.rope != nullptr) {
        const Tensor& rope = *end.rope;
        const auto params = unpack<ops::Rotation::Params>(rope);
        if (rope.ne[0] % 2 != 0 || params.n_offs != 0) return "rows begin with what is not turned";
        if (rope.ne[0] * rope.ne[1] != rows || rope.ne[2] != 1 || rope.ne[3] != 1)
            return "not the heads of one token";
        if (end.store == nullptr && !is_contiguous(rope)) return "heads are not dense";
    }
    if (end.store != nullptr && (end.store->ne[0] != rows || end.store->src[1]->ne[0] != 1))
        return "not one row of a cache";
    return {};
}

bool is_passed_to(ggml_type weights) {
    bool has_codes = false;
    dispatch_column(weights, [&](auto dot) { has_codes = decltype(dot)::kHasCodes; });
    return has_codes;
}

void launch_columns(const ColumnGroup& group, const Launch& launch) {
    const ggml_type type = group.products[0]->src[0]->type;
    const ColumnArguments a = arguments_of(group, launch);
    launch_simple_column(type, a, launch) || launch_k_column(type, a, launch) ||
        launch_float_column(type, a, launch);
}

}  // namespace heddle::cuda
