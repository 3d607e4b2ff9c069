#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/type.hpp"

namespace heddle::quant {

/// The rows that groups of elements are chosen from in the grid formats.
///
/// A row is a point in a cube: every element has one of a few levels, named by codes 0, 1, 2 ...
/// from the lowest up. The codes as digits in base `levels`, element 0 the lowest, are the number
/// of the point. Rows are in ascending order of it; blocks store the index of the row.
struct Codebook {
    int elements = 0;                       ///< of a row: 8 or 4
    int levels = 0;                         ///< 3 or 8
    std::span<const std::uint16_t> points;  ///< number of each row's point
    std::span<const std::int8_t> codes;     ///< of all rows, one after the other
    std::span<const std::int8_t> values;    ///< likewise, as decoders use them

    std::size_t rows() const { return points.size(); }

    /// How many points the cube has.
    std::size_t space() const {
        std::size_t all = 1;
        for (int i = 0; i < elements; ++i) all *= static_cast<std::size_t>(levels);
        return all;
    }

    const std::int8_t* codes_of(std::size_t row) const { return codes.data() + row * stride(); }
    const std::int8_t* values_of(std::size_t row) const { return values.data() + row * stride(); }

private:
    std::size_t stride() const { return static_cast<std::size_t>(elements); }
};

/// The codebook of a grid format. IQ1_S and IQ1_M share one. Other types have an empty one.
const Codebook& codebook_of(Type type);

/// Eight signs of which seven are stored: the number of negative elements is even. Bit j set means
/// that element j is negative.
constexpr std::uint8_t even_signs(unsigned stored) {
    const unsigned odd = static_cast<unsigned>(std::popcount(stored & 127u)) & 1u;
    return static_cast<std::uint8_t>((stored & 127u) | odd << 7);
}

}  // namespace heddle::quant
