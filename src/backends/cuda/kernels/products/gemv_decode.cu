#include "backends/cuda/formats/all.cuh"
#include "backends/cuda/formats/dot_operand.cuh"
#include "backends/cuda/kernels/products/gemv.cuh"
#include "ggml/op_list.h"

/// Products of few columns, any type and any strides: weights are decoded to f32 on the way.
namespace heddle::cuda {
namespace {

constexpr int kWarps = 8;

/// Eight activations of each lane as products use them. All lanes take part: four of them share a
/// scale.
__device__ void round8(DotOperand operand, float (&x)[8]) {
    if (operand == DotOperand::f16) {
#pragma unroll
        for (int j = 0; j < 8; ++j) x[j] = round_to_half(x[j]);
    } else if (operand == DotOperand::bf16) {
#pragma unroll
        for (int j = 0; j < 8; ++j) x[j] = round_to_bfloat(x[j]);
    } else if (has_half_scale(operand)) {
        std::uint32_t bits = 0;
#pragma unroll
        for (int j = 0; j < 8; ++j) bits = max(bits, magnitude_bits(x[j]));
        bits = max(bits, __shfl_xor_sync(0xffffffffu, bits, 1));
        bits = max(bits, __shfl_xor_sync(0xffffffffu, bits, 2));
        const ByteScale scale(bits);
#pragma unroll
        for (int j = 0; j < 8; ++j)
            x[j] = scale.stored(operand) * static_cast<float>(scale.code(x[j]));
    }
}

/// One warp for a row of weights and up to eight columns.
template <class F>
__global__ void __launch_bounds__(32 * kWarps) gemv_decode(GemvArguments a, DotOperand operand) {
    const int lane = threadIdx.x & 31;
    const std::int64_t depth = a.weights.depth, rows = a.weights.rows;
    const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kWarps;
    for (std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
         at < a.segments * rows; at += step) {
        const std::int64_t segment = at / rows, row = at % rows;
        const std::uint8_t* matrix = matrix_of(a, segment);
        const std::uint8_t* weights = matrix + row * a.weights.row_stride;
        const std::int64_t first = first_column(a, segment);
        float sums[kMostColumns] = {};
        for (std::int64_t base = 0; matrix != nullptr && base < depth; base += 256) {
            const std::int64_t k = base + 8 * lane;
            float w[8] = {};
            const int count =
                static_cast<int>(max(min(depth - k, std::int64_t{8}), std::int64_t{0}));
            if (count == 8)
                decode8_of_row<F>(weights, k, w);
            else if constexpr (F::block_elements == 1)
                for (int j = 0; j < count; ++j) w[j] = decode<F>(weights + k * F::block_bytes, j);
            for (int n = 0; n < a.columns; ++n) {
                const std::uint8_t* row_of_b = a.acts.row(first + n);
                float x[8];
#pragma unroll
                for (int j = 0; j < 8; ++j) x[j] = j < count ? a.acts.load(row_of_b, k + j) : 0.0f;
                round8(operand, x);
                float sum = 0;
#pragma unroll
                for (int j = 0; j < 8; ++j)
                    if (j < count) sum += w[j] * x[j];
#pragma unroll
                for (int m = 0; m < kMostColumns; ++m) sums[m] += m == n ? sum : 0.0f;
            }
        }
#pragma unroll
        for (int n = 0; n < kMostColumns; ++n) {
            float sum = sums[n];
#pragma unroll
            for (int s = 16; s > 0; s /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, s);
            if (lane == n && n < a.columns) {
                const std::int64_t column =
                    a.ids != nullptr ? segment : segment * a.segment_columns + a.column_offset + n;
                a.y[column * rows + row] = sum;
            }
        }
    }
}

void run(ggml_type type, GemvArguments arguments, const Launch& launch) {
    const std::int64_t rows = arguments.segments * arguments.weights.rows;
    const std::int64_t blocks = (rows + kWarps - 1) / kWarps, most = 1 << 20;
    dispatch_format(type, [&](auto format) {
        for (int at = 0; at < arguments.segment_columns; at += arguments.columns) {
            const int left = arguments.segment_columns - at;
            arguments.column_offset = at;
            arguments.columns = left < kMostColumns ? left : static_cast<int>(kMostColumns);
            gemv_decode<decltype(format)>
                <<<static_cast<unsigned>(blocks < most ? blocks : most), 32 * kWarps, 0,
                   launch.stream>>>(arguments, dot_operand_of(type));
        }
    });
}

std::string_view objection(const Tensor& node) {
    if (const auto reason = product_objection(node); !reason.empty()) return reason;
    if (columns_per_matrix(node) > kMostColumns) return "more than 8 columns";
    return {};
}

void launch_mul_mat_id(const Tensor& node, const Launch& launch) {
    if (is_empty(node)) return;
    if (node.src[0]->ne[0] == 0) return launch_zeros(node, launch);
    run(node.src[0]->type, mul_mat_id_arguments(node, launch), launch);
}

}  // namespace

void launch_gemv_decode(const Tensor& node, const Launch& launch) {
    if (is_empty(node)) return;
    if (node.src[0]->ne[0] == 0) return launch_zeros(node, launch);
    run(node.src[0]->type, mul_mat_arguments(node), launch);
}

const Kernel kGemvDecode{"gemv_decode", GGML_OP_MUL_MAT, objection, nullptr, launch_gemv_decode};
const Kernel kMulMatIdGeneric{"mul_mat_id_decode", GGML_OP_MUL_MAT_ID, product_objection, nullptr,
                              launch_mul_mat_id};

}  // namespace heddle::cuda
