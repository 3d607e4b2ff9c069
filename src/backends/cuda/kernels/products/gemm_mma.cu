#include "backends/cuda/kernels/products/gemm_mma_launch.cuh"
#include "backends/cuda/kernels/products/gemv.cuh"
#include "backends/cuda/kernels/products/group_by_expert.cuh"
#include "ggml/op_list.h"

/// Rows for products of many columns on tensor cores.
namespace heddle::cuda {
namespace {

constexpr std::int64_t kFewColumns = 64;

bool has_tiles(ggml_type type) {
    return type != GGML_TYPE_F32 && type != GGML_TYPE_Q8_1 && type != GGML_TYPE_Q8_K;
}

std::string_view objection(const Tensor& node) {
    if (const auto reason = product_objection(node); !reason.empty()) return reason;
    if (!has_tiles(node.src[0]->type)) return "weights are f32 or no type of weights";
    return {};
}

void launch_type(ggml_type type, const GemmArguments& a, const ColumnTiles& tiles, bool few,
                 const Launch& launch) {
    if (launch_mma_simple(type, a, tiles, few, launch)) return;
    if (launch_mma_k(type, a, tiles, few, launch)) return;
    launch_mma_grid(type, a, tiles, few, launch);
}

GemmArguments arguments_of(const Tensor& node, const Launch& launch) {
    const HalfActivations layout(*node.src[1]);
    GemmArguments a{};
    a.weights = weights_of(*node.src[0], node);
    a.acts = reinterpret_cast<const std::uint16_t*>(launch.scratch);
    a.factors = reinterpret_cast<const float*>(launch.scratch + layout.factors_at());
    a.padded = layout.depth;
    a.y = static_cast<float*>(node.data);
    return a;
}

std::int64_t tiles_for(std::int64_t columns, int tile) { return (columns + tile - 1) / tile; }

std::size_t mul_mat_scratch(const Tensor& node, const DeviceFacts&) {
    return HalfActivations(*node.src[1]).bytes();
}

void launch_mul_mat(const Tensor& node, const Launch& launch) {
    if (is_empty(node)) return;
    if (node.src[0]->ne[0] == 0) return launch_zeros(node, launch);
    const ggml_type type = node.src[0]->type;
    convert_activations(*node.src[1], type, launch.scratch, launch);
    GemmArguments a = arguments_of(node, launch);
    const bool is_one = has_one_matrix(*node.src[0]);
    a.columns = columns_per_matrix(node);
    a.matrices = is_one ? 1 : node.ne[2] * node.ne[3];
    a.extent2 = is_one ? 1 : node.ne[2];
    const ColumnTiles tiles{tiles_for(a.columns, LargeTile::kColumns) * a.matrices,
                            tiles_for(a.columns, SmallTile::kColumns) * a.matrices};
    launch_type(type, a, tiles, a.columns <= kFewColumns, launch);
}

std::size_t mul_mat_id_scratch(const Tensor& node, const DeviceFacts&) {
    return HalfActivations(*node.src[1]).bytes() +
           ExpertGroups::bytes(node.src[0]->ne[2], node.ne[1] * node.ne[2]);
}

void launch_mul_mat_id(const Tensor& node, const Launch& launch) {
    if (is_empty(node)) return;
    if (node.src[0]->ne[0] == 0) return launch_zeros(node, launch);
    const Tensor& as = *node.src[0];
    const std::int64_t pairs = node.ne[1] * node.ne[2];
    const ExpertGroups groups(launch.scratch + HalfActivations(*node.src[1]).bytes(), as.ne[2],
                              pairs);
    group_by_expert(node, groups, launch);
    convert_activations(*node.src[1], as.type, launch.scratch, launch);
    GemmArguments a = arguments_of(node, launch);
    a.starts = groups.starts;
    a.order = groups.order;
    a.experts = as.ne[2];
    a.slots = node.ne[1];
    a.shared_rows = node.src[1]->ne[1];
    // Every group but the empty ones ends with a tile that may not be full.
    const std::int64_t partial = pairs < as.ne[2] + 1 ? pairs : as.ne[2] + 1;
    const ColumnTiles tiles{pairs / LargeTile::kColumns + partial,
                            pairs / SmallTile::kColumns + partial};
    launch_type(as.type, a, tiles, pairs <= kFewColumns * as.ne[2], launch);
}

}  // namespace

const Kernel kGemmMma{"gemm_mma", GGML_OP_MUL_MAT, objection, mul_mat_scratch, launch_mul_mat};
const Kernel kMulMatIdMma{"mul_mat_id_mma", GGML_OP_MUL_MAT_ID, objection, mul_mat_id_scratch,
                          launch_mul_mat_id};

}  // namespace heddle::cuda
