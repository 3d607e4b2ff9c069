#pragma once

#include "backends/cpu/kernel.hpp"
#include "backends/cpu/kernels/movement/layout.hpp"
#include "backends/cpu/kernels/movement/row_converter.hpp"

/// Moving data from one layout to another, whatever they are. All copying ops are made of this.
namespace heddle::cpu {

/// Unit number e of `from`, in logical order, becomes unit number e of `to`.
struct Copy {
    Layout from;
    Layout to;
    RowConverter convert;
    std::int64_t elements_per_unit = 1;
    bool is_aligned = false;  ///< both layouts have the same axes

    /// Bits of one layout to the other. Both have as many units of the same size, of `type`.
    static Copy of_bits(Type type, const Layout& from, const Layout& to);

    /// All of `x`, converted, to all of `y`: as many elements, in logical order. Only if
    /// `objection_to_copy` has none.
    static Copy of(const Tensor& x, const Tensor& y);
};

/// Why `x` cannot be copied to `y`; empty if it can.
std::string_view objection_to_copy(const Tensor& x, const Tensor& y);

/// Does this task's share.
void run_copy(const Copy& copy, const Task& task);

/// Tasks that are worthwhile for copying `x` to `y`.
int copy_tasks(const Tensor& x, const Tensor& y, int threads);

/// Moves `n` units of `size` bytes, from addresses `from_stride` apart to such `to_stride` apart.
void move_units(const std::byte* from, std::int64_t from_stride, std::byte* to,
                std::int64_t to_stride, std::int64_t n, std::size_t size);

}  // namespace heddle::cpu
