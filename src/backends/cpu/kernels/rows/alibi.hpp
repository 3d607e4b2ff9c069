#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace heddle::cpu {

/// What the mask of head `head` of `heads` is multiplied by: slopes fall by a constant factor from
/// head to head. Beyond the last power of two, they lie between those of the heads before.
inline float alibi_slope(float max_bias, std::int64_t heads, std::int64_t head) {
    if (!(max_bias > 0)) return 1;
    const auto whole = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(heads)));
    const auto count = static_cast<float>(whole);
    if (head < whole) return std::pow(std::exp2(-max_bias / count), static_cast<float>(head + 1));
    const auto odd = static_cast<float>(2 * (head - whole) + 1);
    return std::pow(std::exp2(-max_bias / 2 / count), odd);
}

}  // namespace heddle::cpu
