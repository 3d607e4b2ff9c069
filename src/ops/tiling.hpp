#pragma once

#include "core/tensor.hpp"

/// Extents that fit into others a whole number of times, as broadcasting asks for.
namespace heddle::ops {

/// Whether `whole` is a multiple of `part`. Only nothing is a multiple of nothing.
inline bool divides(std::int64_t part, std::int64_t whole) {
    return part == 0 ? whole == 0 : whole % part == 0;
}

inline bool has_no_elements(const Extents& extent) {
    return extent[0] == 0 || extent[1] == 0 || extent[2] == 0 || extent[3] == 0;
}

/// Whether tiles of extents `small` fill `big` exactly; an empty tile fills only what is empty.
inline bool tiles(const Extents& small, const Extents& big) {
    if (has_no_elements(small)) return has_no_elements(big);
    for (std::size_t d = 0; d < kMaxDims; ++d) {
        if (!divides(small[d], big[d])) return false;
    }
    return true;
}

}  // namespace heddle::ops
