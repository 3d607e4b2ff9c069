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

    __device__ static float dot(const Packed& p, const Acts& x, int) {  // of F32 alone
        float even = __uint_as_float(p.x) * __uint_as_float(x.x);
        float odd = __uint_as_float(p.y) * __uint_as_float(x.y);
        even += __uint_as_float(p.z) * __uint_as_float(x.z);
        odd += __uint_as_float(p.w) * __uint_as_float(x.w);
        return even + odd;
    }

    /// Two rows at once, on tensor cores. A lane's weights are operand rows g and g + 8, where g is
    /// the lane's group of four, and its activations are column g: what is wanted stands on the two
    /// diagonals of the result, the rest is thrown away.
    static constexpr bool kTakesPairs = kElement == 2;
    using Sums = float[4];

    __device__ static void add_pair(const Packed& first, const Packed& second, const Acts& x,
                                    Sums& sums) {
        const std::uint32_t low[4] = {first.x, second.x, first.y, second.y};
        const std::uint32_t high[4] = {first.z, second.z, first.w, second.w};
        if constexpr (kType == GGML_TYPE_F16) {
            multiply_halves(sums, low, x.x, x.y);
            multiply_halves(sums, high, x.z, x.w);
        } else {
            multiply_bfloats(sums, low, x.x, x.y);
            multiply_bfloats(sums, high, x.z, x.w);
        }
    }
    /// The lane's part of the sum of the first or the second row.
    __device__ static float part(const Sums& sums, int row, int lane) {
        const int group = lane / 4;
        const float value = group % 2 == 0 ? sums[2 * row] : sums[2 * row + 1];
        return lane % 4 == group / 2 ? value : 0.0f;
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
