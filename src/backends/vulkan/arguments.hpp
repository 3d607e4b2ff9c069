#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "core/tensor.hpp"

/// What a shader reads of its node, as shaders/arguments.glsl declares it.
namespace heddle::vulkan {

struct alignas(32) Operand {
    std::int64_t stride[4] = {};
    std::int32_t extent[4] = {};
    std::uint64_t data = 0;  ///< 0: there is no such operand
    std::uint32_t type = 0, padding = 0;
};

struct alignas(32) Arguments {
    Operand y;
    Operand src[7];
    std::int32_t i[30] = {};
    std::uint32_t count = 0;  ///< of elements or rows to do
    std::int32_t op = 0;      ///< for reports of indices that are out of range
    float f[16] = {};
    std::uint64_t scratch = 0, faults = 0, codebooks = 0;
    std::uint64_t extra = 0;  ///< address of what was passed to Recorder::run beside this
};
static_assert(sizeof(Arguments) == 736);

inline Operand operand(const Tensor* tensor) {
    Operand result;
    if (tensor == nullptr) return result;
    result.data = reinterpret_cast<std::uint64_t>(tensor->data);
    result.type = static_cast<std::uint32_t>(tensor->type);
    for (int d = 0; d < kMaxDims; ++d) {
        result.extent[d] = static_cast<std::int32_t>(tensor->ne[d]);
        result.stride[d] = static_cast<std::int64_t>(tensor->nb[d]);
    }
    return result;
}

/// A tensor whose elements along dimension 0 are whole blocks.
inline Operand unit_operand(const Tensor* tensor) {
    Operand result = operand(tensor);
    if (tensor != nullptr) {
        result.extent[0] = static_cast<std::int32_t>(tensor->ne[0] / block_size(tensor->type));
    }
    return result;
}

/// The operands of a node in their order.
inline Arguments arguments(const Tensor& node) {
    Arguments result;
    result.y = operand(&node);
    for (std::size_t slot = 0; slot < std::size(result.src); ++slot) {
        result.src[slot] = operand(node.src[slot]);
    }
    result.op = node.op;
    return result;
}

}  // namespace heddle::vulkan
