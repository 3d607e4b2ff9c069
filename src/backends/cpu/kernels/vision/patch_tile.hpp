#pragma once

#include "backends/cpu/kernels/movement/transpose.hpp"
#include "backends/cpu/kernels/vision/sliding_volume.hpp"

namespace heddle::cpu {

/// Rows of the data and the same as columns. A kernel of few taps sees few elements of a row at a
/// time; where many rows are columns, a patch is made of as many of these as there are taps.
template <class T>
struct PatchTile {
    static constexpr std::int64_t kMostTaps = 4;
    static constexpr std::int64_t kRows = 384 / sizeof(T), kColumns = 80;

    alignas(64) T rows[kRows][kColumns];
    alignas(64) T columns[kColumns][kRows];

    /// Elements of a row that one patch spans.
    static std::int64_t reach(const SlidingVolume::Axis& width) {
        return (width.taps - 1) * width.dilation + 1;
    }

    /// Whether patches span few elements and use most of the columns.
    static bool suits(const SlidingVolume::Axis& width) {
        return width.taps <= kMostTaps && width.stride <= 2 * width.taps && width.dilation >= 0 &&
               width.dilation <= kColumns / (2 * kMostTaps);
    }

    /// Positions whose patches fit.
    static std::int64_t positions(const SlidingVolume::Axis& width) {
        return (kColumns - reach(width)) / width.stride + 1;
    }

    /// Columns from rows, or rows from columns. A few of those that follow are spoilt.
    void turn_rows(std::int64_t row_count, std::int64_t column_count) {
        transpose({.from = reinterpret_cast<const std::byte*>(rows),
                   .from_stride = sizeof(rows[0]),
                   .to = reinterpret_cast<std::byte*>(columns),
                   .to_stride = sizeof(columns[0]),
                   .rows = row_count,
                   .columns = column_count});
    }
    void turn_columns(std::int64_t row_count, std::int64_t column_count) {
        transpose({.from = reinterpret_cast<const std::byte*>(columns),
                   .from_stride = sizeof(columns[0]),
                   .to = reinterpret_cast<std::byte*>(rows),
                   .to_stride = sizeof(rows[0]),
                   .rows = column_count,
                   .columns = row_count});
    }

private:
    static void transpose(Transposition matrix) {
        // Other numbers take longer.
        matrix.rows = (matrix.rows + 15) / 16 * 16;
        matrix.columns = (matrix.columns + 7) / 8 * 8;
        if constexpr (sizeof(T) == 2) {
            transpose_words_of_2(matrix, false);
        } else {
            transpose_words_of_4(matrix, false);
        }
    }
};

}  // namespace heddle::cpu
