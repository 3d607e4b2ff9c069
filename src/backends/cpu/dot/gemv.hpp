#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/dot/multiplier.hpp"

/// GEMV: products of many rows with a single column or a few, over when all rows have come from
/// memory once.
namespace heddle::cpu {

/// Rows of a view come three at a time; all of them have come after `of(rows).end` turns.
struct Turns {
    std::int64_t begin = 0;
    std::int64_t end = 0;

    static Turns of(std::int64_t rows) { return {0, (rows + 2) / 3}; }
};

struct GemvKernel {
    /// Lays a prepared column out for `multiply`, in at most `gemv_column_size` bytes, aligned to
    /// 64. Null: it is used as it is.
    void (*arrange)(const void* from, std::int64_t depth, std::byte* to) = nullptr;

    /// out[c][r] = the product of row r and column c, for the rows of `turns` and `count` columns.
    void (*multiply)(const MatrixView& view, Turns turns, const std::byte* const* columns,
                     float* const* out, int count) = nullptr;

    /// So many columns can be multiplied before other ways are faster.
    std::int64_t most_columns = 1;

    explicit operator bool() const { return multiply != nullptr; }
};

/// Rows that are multiplied together: their numbers, and where they are.
struct RowsInThirds {
    std::int64_t at[3];
    const std::byte* row[3];
};

/// The kernel for rows of `type` on the instruction set in use; empty where there is none.
GemvKernel gemv_kernel_of(Type type);

/// Columns that no kernel exceeds. Rows that need little unpacking have fewer, and fewer still
/// where bytes are multiplied in one instruction: micro-panels gain more by it.
inline constexpr std::int64_t kMostGemvColumns = 6;
inline constexpr std::int64_t kMostPairedColumns = 3;
inline constexpr std::int64_t kMostFusedColumns = 2;

/// Whether a product can be a GEMV at all: rows are long enough that what is done once per row does
/// not count.
inline bool may_be_gemv(std::int64_t columns, std::int64_t depth) {
    return columns <= kMostGemvColumns && depth >= 512;
}

/// Whether `kernel` should be used.
inline bool is_gemv(const GemvKernel& kernel, std::int64_t columns, std::int64_t depth) {
    return kernel && may_be_gemv(columns, depth) && columns <= kernel.most_columns;
}

/// Enough for every type and instruction set.
inline std::size_t gemv_column_size(std::int64_t depth) {
    return static_cast<std::size_t>((depth + 255) / 256 * 256) * 2;
}

/// Calls `body` with the rows of each turn, a third of the view apart: each third is read as it
/// lies in memory, so that the hardware prefetcher follows, and the
/// column, which may be longer than L1, comes once for three rows. Where there are not
/// three, the first one comes again.
template <class Body>
void for_rows_in_thirds(const MatrixView& view, Turns turns, Body&& body) {
    const std::int64_t third = Turns::of(view.count).end;
    for (std::int64_t r = turns.begin; r < turns.end; ++r) {
        RowsInThirds rows;
        for (int i = 0; i < 3; ++i) {
            const std::int64_t number = r + i * third;
            rows.at[i] = number < view.count ? number : r;
            rows.row[i] = view.rows + static_cast<std::size_t>(rows.at[i]) * view.pitch;
        }
        body(rows);
    }
}

/// `kAtOnce` columns at a time, for which rows are unpacked once, and then what is left.
/// `Gemv::multiply<n>` is for n of them.
template <int kAtOnce, class Gemv>
void multiply_columns(const MatrixView& view, Turns turns, const std::byte* const* columns,
                      float* const* out, int count) {
    for (; count >= kAtOnce; count -= kAtOnce, columns += kAtOnce, out += kAtOnce) {
        Gemv::template multiply<kAtOnce>(view, turns, columns, out);
    }
    if constexpr (kAtOnce > 1) {
        if (count > 0) multiply_columns<kAtOnce - 1, Gemv>(view, turns, columns, out, count);
    }
}

// Each family's kernels, in its own file.
GemvKernel gemv_plain_of(Type type);   ///< f32 f16 bf16; the column is f32
GemvKernel gemv_simple_of(Type type);  ///< one or two scales for 32; the column is q8_0, q8_1
GemvKernel gemv_k_of(Type type);       ///< q2_K .. q6_K, iq4_xs, tq1_0, tq2_0; q8_K
GemvKernel gemv_grid_of(Type type);    ///< iq1, iq2 and iq3 formats; q8_K

}  // namespace heddle::cpu
