#pragma once

#include "backends/cuda/kernels/operand.cuh"

/// Moving elements and blocks without looking at what they mean.
namespace heddle::cuda {

/// Copies one element or block of `bytes` bytes, which lies at a multiple of its fields' alignment.
__device__ inline void copy_unit(std::byte* to, const std::byte* from, int bytes) {
    switch (bytes) {
        case 4:
            *reinterpret_cast<std::uint32_t*>(to) = *reinterpret_cast<const std::uint32_t*>(from);
            return;
        case 2:
            *reinterpret_cast<std::uint16_t*>(to) = *reinterpret_cast<const std::uint16_t*>(from);
            return;
        case 8:
            *reinterpret_cast<std::uint64_t*>(to) = *reinterpret_cast<const std::uint64_t*>(from);
            return;
        default:
            for (int i = 0; i < bytes; ++i) to[i] = from[i];
    }
}

/// A tensor whose elements along dimension 0 are whole blocks.
inline Operand unit_operand(const Tensor* tensor) {
    Operand result = operand(tensor);
    if (tensor != nullptr) result.extent[0] /= block_size(tensor->type);
    return result;
}

inline int unit_bytes(const Tensor& tensor) { return static_cast<int>(size_of(tensor.type)); }

inline std::int64_t unit_count(const Tensor& tensor) {
    return element_count(tensor) / block_size(tensor.type);
}

}  // namespace heddle::cuda
