#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

/// Vectors of four, for work on four groups of values at once: lane l belongs to group l, so each
/// of them is computed in the same order as it would be alone, and comes out the same to the bit.
namespace heddle::quant {

inline constexpr std::size_t kLanes = 4;

// Compilers know these on every machine, be it without vectors.
using FloatLanes [[gnu::vector_size(4 * kLanes)]] = float;
using IntLanes [[gnu::vector_size(4 * kLanes)]] = std::int32_t;

/// From where on a float's unit is one: adding it rounds to whole numbers, ties to even.
inline constexpr float kUnitIsOne = 0x1.8p23f;

/// The nearest whole number from `low` to `high`, which are below 2^22; NaN stays NaN.
inline FloatLanes round_within(FloatLanes v, int low, int high) {
    const FloatLanes least = FloatLanes{} + static_cast<float>(low);
    const FloatLanes most = FloatLanes{} + static_cast<float>(high);
    const FloatLanes above = v < least ? least : v, bounded = above > most ? most : above;
    return bounded + kUnitIsOne - kUnitIsOne;
}

/// Whole numbers as such; NaN becomes 0.
inline IntLanes to_ints(FloatLanes v) {
    return (std::bit_cast<IntLanes>(v + kUnitIsOne) & 0x007fffff) - 0x00400000;
}

inline FloatLanes magnitude(FloatLanes v) { return v < 0 ? -v : v; }

/// Groups of up to `kMost` values, element i of each in vector i.
template <std::size_t kMost>
class SideBySide {
public:
    SideBySide() = default;

    /// Groups `first` and the following of `values`, which has groups of `size` values. Where there
    /// are no more, the last one comes again.
    SideBySide(std::span<const float> values, std::size_t size, std::size_t first) {
        const std::size_t last = values.size() / size - 1;
        for (std::size_t lane = 0; lane < kLanes; ++lane) {
            const float* group = values.data() + size * (first + lane < last ? first + lane : last);
            for (std::size_t i = 0; i < size; ++i) at_[i][lane] = group[i];
        }
    }
    FloatLanes& operator[](std::size_t i) { return at_[i]; }
    const FloatLanes& operator[](std::size_t i) const { return at_[i]; }

private:
    std::array<FloatLanes, kMost> at_{};
};

}  // namespace heddle::quant
