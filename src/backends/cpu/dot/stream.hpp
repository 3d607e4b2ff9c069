#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/dot/panel.hpp"

/// Products of many rows with one column or a few: over when all rows have come from memory once.
namespace heddle::cpu {

/// Rows of a panel come three at a time; all of them have come after `of(rows).end` turns.
struct Turns {
    std::int64_t begin = 0;
    std::int64_t end = 0;

    static Turns of(std::int64_t rows) { return {0, (rows + 2) / 3}; }
};

struct StreamKernel {
    /// Lays a prepared column out for `multiply`, in at most `stream_column_size` bytes, aligned to
    /// 64. Null: it is used as it is.
    void (*arrange)(const void* from, std::int64_t depth, std::byte* to) = nullptr;

    /// out[c][r] = the product of row r and column c, for the rows of `turns` and `count` columns.
    void (*multiply)(const Panel& panel, Turns turns, const std::byte* const* columns,
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
StreamKernel stream_kernel_of(Type type);

/// Columns that no kernel exceeds. Rows that need little unpacking have fewer, and fewer still
/// where bytes are multiplied in one instruction: strips gain more by it.
inline constexpr std::int64_t kMostStreamColumns = 6;
inline constexpr std::int64_t kMostPairedColumns = 3;
inline constexpr std::int64_t kMostFusedColumns = 2;

/// Whether products can be streams at all: rows are long enough that what is done once per row does
/// not count.
inline bool may_be_stream(std::int64_t columns, std::int64_t depth) {
    return columns <= kMostStreamColumns && depth >= 512;
}

/// Whether `kernel` should be used.
inline bool is_stream(const StreamKernel& kernel, std::int64_t columns, std::int64_t depth) {
    return kernel && may_be_stream(columns, depth) && columns <= kernel.most_columns;
}

/// Enough for every type and instruction set.
inline std::size_t stream_column_size(std::int64_t depth) {
    return static_cast<std::size_t>((depth + 255) / 256 * 256) * 2;
}

/// Calls `body` with the rows of each turn, a third of the panel apart: each third is read as it
/// lies in memory, so that the hardware prefetcher follows, and the
/// column, which may be longer than L1, comes once for three rows. Where there are not
/// three, the first one comes again.
template <class Body>
void for_rows_in_thirds(const Panel& panel, Turns turns, Body&& body) {
    const std::int64_t third = Turns::of(panel.count).end;
    for (std::int64_t r = turns.begin; r < turns.end; ++r) {
        RowsInThirds rows;
        for (int i = 0; i < 3; ++i) {
            const std::int64_t number = r + i * third;
            rows.at[i] = number < panel.count ? number : r;
            rows.row[i] = panel.rows + static_cast<std::size_t>(rows.at[i]) * panel.pitch;
        }
        body(rows);
    }
}

/// `kAtOnce` columns at a time, for which rows are unpacked once, and then what is left.
/// `Stream::multiply<n>` is for n of them.
template <int kAtOnce, class Stream>
void multiply_columns(const Panel& panel, Turns turns, const std::byte* const* columns,
                      float* const* out, int count) {
    for (; count >= kAtOnce; count -= kAtOnce, columns += kAtOnce, out += kAtOnce) {
        Stream::template multiply<kAtOnce>(panel, turns, columns, out);
    }
    if constexpr (kAtOnce > 1) {
        if (count > 0) multiply_columns<kAtOnce - 1, Stream>(panel, turns, columns, out, count);
    }
}

// Each family's kernels, in its own file.
StreamKernel plain_stream_of(Type type);   ///< f32 f16 bf16; the column is f32
StreamKernel simple_stream_of(Type type);  ///< one or two scales for 32; the column is q8_0, q8_1
StreamKernel k_stream_of(Type type);       ///< q2_K .. q6_K, iq4_xs, tq1_0, tq2_0; q8_K
StreamKernel grid_stream_of(Type type);    ///< iq1, iq2 and iq3 formats; q8_K

}  // namespace heddle::cpu
