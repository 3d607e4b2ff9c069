#pragma once

#include "backends/cuda/formats/dot_operand.cuh"
#include "backends/cuda/kernels/products/gemv_ring.cuh"

/// Dot products of float weights and activations that have as many bits, for `gemv_ring`. A lane
/// takes four weights of every 128, so that weights and activations are read without bank
/// conflicts.
namespace heddle::cuda {

template <ggml_type kType>
struct FloatDot {
    static constexpr int kElement = kType == GGML_TYPE_F32 ? 4 : 2;
    static constexpr int kAlignment = 4 * kElement, kSteps = 16 / kElement;
    static constexpr int kPieceWeights = kSteps * 128, kPieceBytes = kPieceWeights * kElement;
    static constexpr int kDepthUnit = 4;

    struct Packed {
        std::uint32_t w[kElement];
    };
    using Acts = float4;

    __host__ __device__ static std::int64_t row_bytes(std::int64_t depth) {
        return depth * kElement;
    }
    __host__ __device__ static int column_bytes(std::int64_t depth) {
        return static_cast<int>(depth * 4 + 15) & ~15;
    }
    __device__ static int first_weight(int step, int lane) { return step * 128 + lane * 4; }

    __device__ static void load_column(const GemvArguments& a, std::int64_t number,
                                       std::uint8_t* to, int thread, int threads) {
        const std::uint8_t* row = a.acts.row(number);
        const int depth = static_cast<int>(a.weights.depth);
        constexpr int kBatch = 8;  // loads under way at once
        for (int first = thread; first < depth; first += kBatch * threads) {
            float x[kBatch];
#pragma unroll
            for (int i = 0; i < kBatch; ++i)
                x[i] = first + i * threads < depth ? a.acts.load(row, first + i * threads) : 0.0f;
#pragma unroll
            for (int i = 0; i < kBatch; ++i)
                if (first + i * threads < depth)
                    reinterpret_cast<float*>(to)[first + i * threads] = rounded(x[i]);
        }
    }
    __device__ static float rounded(float x) {
        if constexpr (kType == GGML_TYPE_F16) return round_to_half(x);
        if constexpr (kType == GGML_TYPE_BF16) return round_to_bfloat(x);
        return x;
    }
    __device__ static Packed load(const std::uint8_t* piece, int step, int lane) {
        const std::uint8_t* from = piece + (step * 128 + lane * 4) * kElement;
        Packed packed;
        if constexpr (kElement == 4) {
            const uint4 w = *reinterpret_cast<const uint4*>(from);
            packed.w[0] = w.x, packed.w[1] = w.y, packed.w[2] = w.z, packed.w[3] = w.w;
        } else {
            const uint2 w = *reinterpret_cast<const uint2*>(from);
            packed.w[0] = w.x, packed.w[1] = w.y;
        }
        return packed;
    }
    __device__ static Acts load_acts(const std::uint8_t* column, std::int64_t, int k) {
        return *reinterpret_cast<const float4*>(column + 4 * k);
    }
    __device__ static float dot(const Packed& p, const Acts& x, int) {
        float w[4];
        if constexpr (kType == GGML_TYPE_F32) {
#pragma unroll
            for (int i = 0; i < 4; ++i) w[i] = __uint_as_float(p.w[i]);
        } else if constexpr (kType == GGML_TYPE_F16) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const float2 two = __half22float2(*reinterpret_cast<const __half2*>(&p.w[i]));
                w[2 * i] = two.x, w[2 * i + 1] = two.y;
            }
        } else {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                w[2 * i] = __uint_as_float(p.w[i] << 16);
                w[2 * i + 1] = __uint_as_float(p.w[i] & 0xffff0000u);
            }
        }
        return w[0] * x.x + w[1] * x.y + w[2] * x.z + w[3] * x.w;
    }
};

/// The float formats, and calls `body(FloatDot<type>{})`.
template <class Body>
bool dispatch_float(ggml_type type, Body&& body) {
    switch (type) {
        case GGML_TYPE_F32:
            return body(FloatDot<GGML_TYPE_F32>{}), true;
        case GGML_TYPE_F16:
            return body(FloatDot<GGML_TYPE_F16>{}), true;
        case GGML_TYPE_BF16:
            return body(FloatDot<GGML_TYPE_BF16>{}), true;
        default:
            return false;
    }
}

}  // namespace heddle::cuda
