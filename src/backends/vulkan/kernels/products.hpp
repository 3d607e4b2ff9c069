#pragma once

#include "backends/vulkan/kernel.hpp"

namespace heddle::vulkan {

/// What every kernel of MUL_MAT and MUL_MAT_ID asks of a node.
std::string_view product_objection(const Tensor& node);

inline std::int64_t quotient_up(std::int64_t all, std::int64_t each) {
    return (all + each - 1) / each;
}

}  // namespace heddle::vulkan
