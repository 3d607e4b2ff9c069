#include "backends/cuda/formats/dot_operand.cuh"
#include "backends/cuda/kernels/elementwise/glu_functions.cuh"
#include "backends/cuda/kernels/operand.cuh"
#include "backends/cuda/kernels/products/operands.cuh"
#include "backends/cuda/kernels/products/tile_words.cuh"
#include "backends/cuda/kernels/products/tiled_activations.hpp"
#include "backends/cuda/kernels/wgmma.cuh"
#include "ops/norm.hpp"

namespace heddle::cuda {
namespace {

constexpr int kQuads = 4, kMostThreads = 1024;

enum class Making { as_they_are, norm, glu };

struct TileArguments {
    Activations b;
    std::int64_t depth, padded, columns;  ///< columns are padded, too
    DotOperand operand;
    WeightOrder order;
    bool is_dense;
    std::uint16_t* halves;
    float* factors;
    ColumnSources sources;

    Activations linear;  ///< of gated units
    ops::Glu::Params glu;
    const float* norm_weights;
    float eps;

    /// The row of a column; -1: there is none.
    __device__ std::int64_t row_of(std::int64_t column) const {
        if (sources.pairs == nullptr) return column < b.columns() ? column : -1;
        const std::int64_t pair = sources.pairs[column];
        if (pair < 0) return -1;
        return pair / sources.slots * b.extent1 + pair % sources.slots % b.extent1;
    }
};

/// Four elements of a row from `first` on; zeros past its end.
template <bool kIsAligned>
__device__ __forceinline__ void load_four(const Activations& b, const std::uint8_t* row,
                                          std::int64_t first, std::int64_t depth, float (&x)[4]) {
    if (kIsAligned && first + 4 <= depth) {
        const float4 four = *reinterpret_cast<const float4*>(row + 4 * first);
        x[0] = four.x, x[1] = four.y, x[2] = four.z, x[3] = four.w;
        return;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) x[i] = first + i < depth ? b.load(row, first + i) : 0.0f;
}

/// Eight lanes have the 32 activations that share a scale.
__device__ __forceinline__ void round_four(DotOperand operand, float (&x)[4]) {
    std::uint32_t bits = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) bits = max(bits, magnitude_bits(x[i]));
#pragma unroll
    for (int step = 1; step < 8; step *= 2)
        bits = max(bits, __shfl_xor_sync(0xffffffffu, bits, step));
    const ByteScale scale(bits);
    const float stored = scale.stored(operand);
#pragma unroll
    for (int i = 0; i < 4; ++i) x[i] = stored * static_cast<float>(scale.code(x[i]));
}

/// Where elements `first` to `first` + 3 go: two words, of two elements each.
__device__ __forceinline__ void store_four(const TileArguments& a, std::int64_t first,
                                           const float (&x)[4]) {
    const bool to_bf16 = a.operand == DotOperand::bf16;
    const auto pack = [&](float low, float high) {
        return to_bf16 ? pack_bfloats(low, high) : pack_halves(low, high);
    };
    const std::int64_t column = blockIdx.x;
    const int k = static_cast<int>(first % 64), row = static_cast<int>(column % 8);
    std::uint16_t* const to = a.halves + (a.is_dense ? column * a.padded + first - k
                                                     : (first / 64 * a.columns + column) * 64);
    const auto put = [&](int slot, std::uint32_t word) {
        const int sixteen = a.is_dense ? slot / 8 : swizzled(row, slot / 8);
        *reinterpret_cast<std::uint32_t*>(to + 8 * sixteen + slot % 8) = word;
    };
    if (a.order == WeightOrder::fours) {  // lane k % 16 / 4 of a k = 16
        const int slot = k / 16 * 16 + k % 16 / 2;
        put(slot, pack(x[0], x[2]));
        put(slot + 8, pack(x[1], x[3]));
    } else if (a.order == WeightOrder::eights) {  // lane k % 32 / 8, first or second k = 16
        const int slot = k / 32 * 32 + k % 8 / 4 * 16 + k % 32 / 8 * 2;
        put(slot, pack(x[0], x[1]));
        put(slot + 8, pack(x[2], x[3]));
    } else {
        put(k, pack(x[0], x[1]));
        put(k + 2, pack(x[2], x[3]));
    }
}

/// A column of the result.
template <Making kMaking, bool kIsAligned>
struct Column {
    const TileArguments& a;
    std::int64_t depth;
    const std::uint8_t *row, *linear;

    __device__ explicit Column(const TileArguments& arguments) : a(arguments) {
        const std::int64_t source = a.row_of(blockIdx.x), there = source < 0 ? 0 : source;
        depth = source < 0 ? 0 : a.depth;
        row = a.b.row(there);
        linear = kMaking == Making::glu ? a.linear.row(there) : nullptr;
    }

    /// Elements from `first` on, but for the norm's factor and weights.
    __device__ __forceinline__ void load(std::int64_t first, float (&x)[4]) const {
        load_four<kIsAligned>(a.b, row, first, depth, x);
        if constexpr (kMaking == Making::glu) {
            float other[4];
            load_four<kIsAligned>(a.linear, linear, first, depth, other);
#pragma unroll
            for (int i = 0; i < 4; ++i) x[i] = quick_glu_of(a.glu, x[i], other[i]);
        }
    }

    /// Times the norm's factor and weights.
    __device__ __forceinline__ void scale(std::int64_t first, float by, float (&x)[4]) const {
        if constexpr (kMaking == Making::norm) {
#pragma unroll
            for (int i = 0; i < 4; ++i)
                x[i] = x[i] * by * (first + i < depth ? a.norm_weights[first + i] : 0.0f);
        }
    }
};

/// One block per column, whole warps. Threads have four quads of elements, of columns longer than
/// those of a block more, which are read again.
template <Making kMaking, bool kIsAligned>
__global__ void __launch_bounds__(kMostThreads) convert(TileArguments a) {
    chain_trigger();  // the product's weights may come
    const Column<kMaking, kIsAligned> column(a);
    const std::int64_t own = 4 * threadIdx.x, stride = 4 * blockDim.x, pass = kQuads * stride;
    const bool is_short = a.padded <= pass;
    float x[kQuads][4], by = 1, largest = 0, squares = 0;
    const auto load_pass = [&](std::int64_t begin) {
#pragma unroll
        for (int q = 0; q < kQuads; ++q) column.load(begin + own + q * stride, x[q]);
    };
    for (std::int64_t begin = 0; begin < a.padded; begin += pass) {
        load_pass(begin);
#pragma unroll
        for (int i = 0; i < 4 * kQuads; ++i) {
            squares += x[i / 4][i % 4] * x[i / 4][i % 4];
            largest = fmaxf(largest, fabsf(x[i / 4][i % 4]));
        }
    }
    if constexpr (kMaking == Making::norm) {
        by = 1.0f / sqrtf(block_sum(squares) / static_cast<float>(a.depth) + a.eps);
        largest = 0;
        for (std::int64_t begin = 0; begin < a.padded; begin += pass) {
            if (!is_short) load_pass(begin);
#pragma unroll
            for (int q = 0; q < kQuads; ++q) {
                column.scale(begin + own + q * stride, by, x[q]);
#pragma unroll
                for (int i = 0; i < 4; ++i) largest = fmaxf(largest, fabsf(x[q][i]));
            }
        }
    }
    const int exponent = a.operand == DotOperand::bf16 ? 0 : exponent_for(block_max(largest));
    const float scale = exp2f(static_cast<float>(-exponent));
    for (std::int64_t begin = 0; begin < a.padded; begin += pass) {
        if (!is_short) load_pass(begin);
#pragma unroll
        for (int q = 0; q < kQuads; ++q) {
            const std::int64_t first = begin + own + q * stride;
            if (!is_short) column.scale(first, by, x[q]);
            if (has_half_scale(a.operand)) round_four(a.operand, x[q]);
#pragma unroll
            for (int i = 0; i < 4; ++i) x[q][i] *= scale;
            if (first < a.padded) store_four(a, first, x[q]);
        }
    }
    if (threadIdx.x == 0) a.factors[blockIdx.x] = exp2f(static_cast<float>(exponent));
}

bool is_aligned_f32(const Tensor& t) {
    return t.type == GGML_TYPE_F32 && has_aligned_strides(t, 16) && is_aligned(t.data, 16);
}

template <Making kMaking>
void start_convert(const TileArguments& a, bool is_aligned, const Launch& launch) {
    constexpr std::int64_t kWarp = 32;
    const std::int64_t wanted = (a.padded / (4 * kQuads) + kWarp - 1) / kWarp * kWarp;
    const auto threads = static_cast<unsigned>(wanted < kMostThreads ? wanted : kMostThreads);
    const auto blocks = static_cast<unsigned>(a.columns);
    if (is_aligned)
        convert<kMaking, true><<<blocks, threads, 0, launch.stream>>>(a);
    else
        convert<kMaking, false><<<blocks, threads, 0, launch.stream>>>(a);
}

}  // namespace

void convert_to_tiles(const TileSource& source, ggml_type weights, WeightOrder order,
                      const TiledActivations& layout, std::byte* to, const Launch& launch) {
    TileArguments a{};
    a.b = activations_of(*source.rows);
    a.depth = source.rows->ne[0];
    a.padded = layout.depth;
    a.columns = layout.columns;
    a.operand = dot_operand_of(weights);
    a.order = order;
    a.is_dense = layout.is_dense;
    a.halves = reinterpret_cast<std::uint16_t*>(to);
    a.factors = reinterpret_cast<float*>(to + layout.factors_at());
    a.sources = source.columns;
    const bool is_aligned = is_aligned_f32(*source.rows);
    if (source.norm != nullptr) {
        a.norm_weights = static_cast<const float*>(source.norm_weights->data);
        a.eps = unpack<ops::RmsNorm::Params>(*source.norm).eps;
        return start_convert<Making::norm>(a, is_aligned, launch);
    }
    if (source.glu == nullptr) return start_convert<Making::as_they_are>(a, is_aligned, launch);
    a.linear = activations_of(*source.linear);
    a.glu = unpack<ops::Glu::Params>(*source.glu);
    start_convert<Making::glu>(a, is_aligned && is_aligned_f32(*source.linear), launch);
}

}  // namespace heddle::cuda
