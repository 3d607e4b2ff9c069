#pragma once

#include "backends/cpu/kernels/elementwise/spans.hpp"

namespace heddle::cpu {

/// How to walk y = a ∘ b with b tiled to the extents of a: rows as long and dimensions as few as
/// the layouts allow. Rows of y and a are dense.
struct Broadcast {
    std::int64_t extent[kMaxDims] = {1, 1, 1, 1};  ///< of y and a
    std::int64_t extent_b[kMaxDims] = {1, 1, 1, 1};
    std::size_t y[kMaxDims] = {}, a[kMaxDims] = {}, b[kMaxDims] = {};  ///< strides in bytes

    Broadcast(const Tensor& node, const Tensor& first, const Tensor& second) {
        take(0, node, first, second, 0);
        y[0] = size_of(node.type);
        a[0] = size_of(first.type);
        int last = 0;
        for (int d = 1; d < kMaxDims; ++d) {
            if (node.ne[d] == 1) continue;
            if (joins(last, node, first, second, d)) {
                if (extent[last] == 1) b[last] = second.nb[d];
                extent[last] *= node.ne[d];
                extent_b[last] *= second.ne[d];
            } else {
                take(++last, node, first, second, d);
            }
        }
    }

    std::int64_t rows() const { return extent[1] * extent[2] * extent[3]; }

    /// Calls `body(y, a, b)` with the offsets of rows `range`.
    template <class Body>
    void for_rows(Range range, Body&& body) const {
        for (std::int64_t r = range.begin; r < range.end; ++r) {
            const std::int64_t index[] = {0, r % extent[1], r / extent[1] % extent[2],
                                          r / (extent[1] * extent[2])};
            std::size_t offset_y = 0, offset_a = 0, offset_b = 0;
            for (int d = 1; d < kMaxDims; ++d) {
                const auto i = static_cast<std::size_t>(index[d]);
                offset_y += i * y[d];
                offset_a += i * a[d];
                offset_b += static_cast<std::size_t>(index[d] % extent_b[d]) * b[d];
            }
            body(offset_y, offset_a, offset_b);
        }
    }

private:
    void take(int slot, const Tensor& node, const Tensor& first, const Tensor& second, int d) {
        extent[slot] = node.ne[d];
        extent_b[slot] = second.ne[d];
        y[slot] = node.nb[d];
        a[slot] = first.nb[d];
        b[slot] = second.nb[d];
    }

    /// Whether dimension `d` continues what `slot` has so far, in all three tensors.
    bool joins(int slot, const Tensor& node, const Tensor& first, const Tensor& second,
               int d) const {
        const auto so_far = static_cast<std::size_t>(extent[slot]);
        if (node.nb[d] != so_far * y[slot] || first.nb[d] != so_far * a[slot]) return false;
        if (extent[slot] == 1) return true;
        if (extent_b[slot] == 1) return second.ne[d] == 1;
        return extent_b[slot] == extent[slot] && second.ne[d] == node.ne[d] &&
               second.nb[d] == so_far * b[slot];
    }
};

}  // namespace heddle::cpu
