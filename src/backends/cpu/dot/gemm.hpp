#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/dot/multiplier.hpp"

/// Products of many rows with many columns, from rearranged copies of both.
///
/// A micro-panel holds as many rows as there are lanes (or twice that), one element of each row
/// after the other, so that a vector has one lane per row and sums need no adding up across lanes.
/// A micro-panel of columns is laid out the same way; the product of two micro-panels stays in
/// registers until it is done.
namespace heddle::cpu {

/// Rows that are shorter are hardly multiplied when their sums have to be added up across lanes.
inline constexpr std::int64_t kShortRow = 512;

/// How micro-panels of a type are made and multiplied on the instruction set in use.
struct GemmKernel {
    int rows = 0;            ///< of a micro-panel of rows
    int columns = 0;         ///< of a micro-panel of columns
    std::int64_t depth = 0;  ///< elements that are multiplied in one go; a multiple of 256

    /// With fewer columns rows are better multiplied where they are.
    std::int64_t least_columns = 0;

    /// The same for rows of fewer than `kShortRow` elements.
    std::int64_t least_columns_of_short = 0;

    // Bytes that 32 elements of a row or column take; a micro-panel is as many times larger.
    std::size_t row_bytes = 0;
    std::size_t column_bytes = 0;

    bool wants_floats = false;  ///< columns are put as f32, whatever they are prepared as

    /// Elements `begin` .. `begin + count` of up to `rows` rows; what is missing becomes zero.
    void (*pack_rows)(const MatrixView& view, std::int64_t begin, std::int64_t count,
                      std::byte* to) = nullptr;

    /// `count` elements of a prepared column; `to` is where they begin in their micro-panel.
    void (*put_column)(const void* from, std::int64_t count, std::byte* to, int column) = nullptr;

    /// out[c][r] = (or +=, if `add`) the products of `count` elements, for all rows of a
    /// micro-panel and the first `width` columns of another. Always writes `rows` results per
    /// column, and may write to all of `columns` places in `out`.
    void (*multiply)(const std::byte* rows, const std::byte* columns, std::int64_t count, int width,
                     float* const* out, bool add) = nullptr;

    /// The same as `pack_rows` and then `multiply`, for as many rows as a micro-panel has and
    /// `depth` elements after another: `count` may be more. Null: there is nothing better than one
    /// after the other.
    void (*pack_and_multiply)(const MatrixView& view, std::int64_t begin, std::int64_t count,
                              std::byte* to, const std::byte* columns, int width, float* const* out,
                              bool add) = nullptr;

    explicit operator bool() const { return multiply != nullptr; }

    /// Whether micro-panels are worth making for `count` columns of `elements` elements.
    bool pays_for(std::int64_t count, std::int64_t elements) const {
        return count >= (elements < kShortRow ? least_columns_of_short : least_columns);
    }

    /// Columns of a micro-panel of which `wanted` are left.
    int width_of(std::int64_t wanted) const {
        return wanted < columns ? static_cast<int>(wanted) : columns;
    }

    std::size_t row_micro_panel_size(std::int64_t count) const {
        return static_cast<std::size_t>(rows) * row_bytes *
               static_cast<std::size_t>((count + 31) / 32);
    }
    std::size_t column_micro_panel_size(std::int64_t count) const {
        return static_cast<std::size_t>(columns) * column_bytes *
               static_cast<std::size_t>((count + 31) / 32);
    }
};

/// The kernel for rows of `type`; empty where there is none.
GemmKernel gemm_kernel_of(Type type);

/// Bytes per element that no micro-panel exceeds, whatever the instruction set.
inline constexpr std::size_t kMicroPanelElement = sizeof(float);

/// A multiple of the columns of every kernel.
inline constexpr std::int64_t kMicroPanelColumns = 12;

/// Rows that no micro-panel exceeds.
inline constexpr std::int64_t kMostMicroPanelRows = 64;

/// Prepares a column, which is f32 or of the dot type, and puts all of it into its micro-panel.
void put_prepared(const GemmKernel& kernel, const Multiplier& multiplier, Type type,
                  const std::byte* from, std::int64_t depth, std::byte* micro_panel, int column);

/// Puts zeros in place of a column.
void put_zeros(const GemmKernel& kernel, std::int64_t depth, std::byte* micro_panel, int column);

// Each family's kernels, in its own file; empty for types of other families and where the
// instruction set has no good way to do it.
/// Every type that can be decoded. Element p of row r is f32 number p * `rows` + r of its
/// micro-panel, and so for columns.
GemmKernel gemm_float_of(Type type);
GemmKernel gemm_simple_of(Type type);  ///< codes of 8 bits against q8_0 or q8_1
GemmKernel gemm_k_of(Type type);       ///< codes of 8 bits against q8_K

}  // namespace heddle::cpu
