#pragma once

#include "backends/vulkan/kernel.hpp"

namespace heddle::vulkan {

inline std::int32_t type_of(const Tensor* tensor) {
    return tensor != nullptr ? static_cast<std::int32_t>(tensor->type) : 0;
}

/// Invocations for a row of `length` elements.
inline int row_workgroup(std::int64_t length) { return length <= 64 ? 64 : 256; }

/// Rows of plain numbers that begin at multiples of 16 bytes: shaders read so much at once.
inline bool has_aligned_rows(const Tensor& tensor) {
    if (block_size(tensor.type) > 1 || tensor.nb[0] != size_of(tensor.type)) return false;
    const auto place = reinterpret_cast<std::uintptr_t>(tensor.data);
    return (place | tensor.nb[1] | tensor.nb[2] | tensor.nb[3]) % 16 == 0;
}

/// Factors of the mask as shaders/alibi.glsl reads them, in `f` from 1 on.
void set_alibi(Arguments& arguments, float max_bias, std::int64_t heads);

}  // namespace heddle::vulkan
