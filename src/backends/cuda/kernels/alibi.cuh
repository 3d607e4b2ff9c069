#pragma once

#include <cmath>
#include <cstdint>

namespace heddle::cuda {

/// Factors of the mask, one for each head, that make attention fade with distance.
struct Alibi {
    float max_bias = 0;
    float power = 1;  ///< of two, not above the number of heads
    float first = 1, second = 1;

    Alibi(float bias, std::int64_t heads) : max_bias(bias) {
        if (bias <= 0 || heads <= 0) return;
        power = std::exp2(std::floor(std::log2(static_cast<float>(heads))));
        first = std::exp2(-bias / power);
        second = std::exp2(-bias / 2 / power);
    }

    __device__ float slope(std::int64_t head) const {
        if (max_bias <= 0) return 1;
        const auto h = static_cast<float>(head);
        return h < power ? powf(first, h + 1) : powf(second, 2 * (h - power) + 1);
    }
};

}  // namespace heddle::cuda
