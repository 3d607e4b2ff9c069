#pragma once

#include "backends/cuda/formats/dot_operand.cuh"
#include "backends/cuda/kernels/ptx.cuh"

/// Dot products of float weights and activations that have as many bits, for `gemv_column`. A lane
/// takes sixteen bytes of every 512.
namespace heddle::cuda {

template <ggml_type kType>
struct ColumnFloatDot {
    static constexpr bool kHasCodes = false;
    static constexpr int kElement = kType == GGML_TYPE_F32 ? 4 : 2;
    static constexpr int kLaneWeights = 16 / kElement;
    static constexpr int kAlignment = 16, kSteps = 4;
    static constexpr int kPieceWeights = kSteps * 32 * kLaneWeights;
    static constexpr int kPieceBytes = kPieceWeights * kElement;
    static constexpr int kDepthUnit = kLaneWeights;

    using Packed = uint4;
    using Acts = uint4;

    __host__ __device__ static std::int64_t row_bytes(std::int64_t depth) {
        return depth * kElement;
    }
    /// The last of the eight that are staged together may lie behind the end.
    __host__ __device__ static int column_bytes(std::int64_t depth) {
        return static_cast<int>((depth + 7) / 8 * 8 * kElement);
    }
    /// Whether one of them is finite, but not in this type.
    __device__ static bool is_too_large(const float (&x)[8]) {
        bool is = false;
        if constexpr (kType == GGML_TYPE_F16) {
#pragma unroll
            for (int i = 0; i < 8; ++i) is |= fabsf(x[i]) >= 65504.0f && !isinf(x[i]);
        }
        return is;
    }
    __device__ static int first_weight(int step, int lane) {
        return (step * 32 + lane) * kLaneWeights;
    }
    __device__ static void stage8(const float (&x)[8], std::int64_t, int k, std::uint8_t* to) {
        auto* const place = reinterpret_cast<uint4*>(to + k * kElement);
        if constexpr (kType == GGML_TYPE_F32) {
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                place[h] = {__float_as_uint(x[4 * h]), __float_as_uint(x[4 * h + 1]),
                            __float_as_uint(x[4 * h + 2]), __float_as_uint(x[4 * h + 3])};
            }
        } else if constexpr (kType == GGML_TYPE_F16) {
            *place = {pack_halves(x[0], x[1]), pack_halves(x[2], x[3]), pack_halves(x[4], x[5]),
                      pack_halves(x[6], x[7])};
        } else {
            *place = {pack_bfloats(x[0], x[1]), pack_bfloats(x[2], x[3]), pack_bfloats(x[4], x[5]),
                      pack_bfloats(x[6], x[7])};
        }
    }
    __device__ static Packed load(const std::uint8_t* piece, int step, int lane) {
        return *reinterpret_cast<const uint4*>(piece + (step * 32 + lane) * 16);
    }
    __device__ static Acts load_acts(const std::uint8_t* column, std::int64_t, int k) {
        return *reinterpret_cast<const uint4*>(column + k * kElement);
    }
    __device__ static void finish(Acts&, float) {}

    /// Two numbers of a word, or the first one and nothing.
    __device__ static float2 unpack(std::uint32_t w) {
        if constexpr (kType == GGML_TYPE_F32) return {__uint_as_float(w), 0};
        if constexpr (kType == GGML_TYPE_F16)
            return __half22float2(*reinterpret_cast<const __half2*>(&w));
        return {__uint_as_float(w << 16), __uint_as_float(w & 0xffff0000u)};
    }
    __device__ static float dot(const Packed& p, const Acts& x, int) {
        const std::uint32_t weights[4] = {p.x, p.y, p.z, p.w}, acts[4] = {x.x, x.y, x.z, x.w};
        float even = 0, odd = 0;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float2 a = unpack(weights[i]), b = unpack(acts[i]);
            even += a.x * b.x;
            if constexpr (kElement == 2) odd += a.y * b.y;
        }
        return even + odd;
    }
};

/// The float formats, and calls `body(ColumnFloatDot<type>{})`.
template <class Body>
bool dispatch_column_float(ggml_type type, Body&& body) {
    switch (type) {
        case GGML_TYPE_F32:
            return body(ColumnFloatDot<GGML_TYPE_F32>{}), true;
        case GGML_TYPE_F16:
            return body(ColumnFloatDot<GGML_TYPE_F16>{}), true;
        case GGML_TYPE_BF16:
            return body(ColumnFloatDot<GGML_TYPE_BF16>{}), true;
        default:
            return false;
    }
}

}  // namespace heddle::cuda
