#pragma once

#include "backends/cuda/formats/format.cuh"
#include "backends/cuda/kernels/products/products.hpp"

/// The operands of a product of matrices as kernels see them. Offsets have 64 bits.
namespace heddle::cuda {

/// Rows of weights, of any type. Matrix (i2, i3) of the result uses matrix (i2 / repeat2,
/// i3 / repeat3) of the weights.
struct Weights {
    const std::uint8_t* data;
    std::int64_t rows, depth;
    std::int64_t row_stride, stride2, stride3;  ///< bytes
    std::int64_t repeat2, repeat3;

    __device__ const std::uint8_t* matrix(std::int64_t i2, std::int64_t i3) const {
        return data + i2 / repeat2 * stride2 + i3 / repeat3 * stride3;
    }
};

/// Rows of activations, f32 or f16; column j of the product belongs to row j.
struct Activations {
    const std::uint8_t* data;
    std::int64_t extent1, extent2, extent3;
    std::int64_t stride1, stride2, stride3;  ///< bytes
    bool is_f16;

    /// Row number `column`, counted in logical order over dimensions 1 to 3.
    __device__ const std::uint8_t* row(std::int64_t column) const {
        const std::int64_t i1 = column % extent1, rest = column / extent1;
        return data + i1 * stride1 + rest % extent2 * stride2 + rest / extent2 * stride3;
    }
    __device__ float load(const std::uint8_t* of_row, std::int64_t i) const {
        return is_f16 ? load_half(of_row + 2 * i) : reinterpret_cast<const float*>(of_row)[i];
    }
    __host__ __device__ std::int64_t columns() const { return extent1 * extent2 * extent3; }
};

inline Weights weights_of(const Tensor& a, const Tensor& node) {
    const auto stride = [&](int d) { return static_cast<std::int64_t>(a.nb[d]); };
    return {static_cast<const std::uint8_t*>(a.data),
            a.ne[1],
            a.ne[0],
            stride(1),
            stride(2),
            stride(3),
            node.ne[2] / (a.ne[2] > 0 ? a.ne[2] : 1),
            node.ne[3] / (a.ne[3] > 0 ? a.ne[3] : 1)};
}

inline Activations activations_of(const Tensor& b) {
    const auto stride = [&](int d) { return static_cast<std::int64_t>(b.nb[d]); };
    return {static_cast<const std::uint8_t*>(b.data),
            b.ne[1],
            b.ne[2],
            b.ne[3],
            stride(1),
            stride(2),
            stride(3),
            b.type == GGML_TYPE_F16};
}

/// Whether rows and matrices of a tensor begin at multiples of `bytes`, as far as strides and the
/// place in a view say. What `data` says is asked at launch.
inline bool has_aligned_strides(const Tensor& t, std::size_t bytes) {
    return t.nb[1] % bytes == 0 && t.nb[2] % bytes == 0 && t.nb[3] % bytes == 0 &&
           (t.view_src == nullptr || t.view_offs % bytes == 0);
}

/// Whether rows of an attention's mask can be copied 16 bytes at a time, up to the last key.
inline bool has_whole_mask_pieces(const Tensor& mask, std::int64_t keys) {
    return has_aligned_strides(mask, 16) && keys % 8 == 0;
}

inline bool is_aligned(const void* data, std::size_t bytes) {
    return reinterpret_cast<std::uintptr_t>(data) % bytes == 0;
}

}  // namespace heddle::cuda
