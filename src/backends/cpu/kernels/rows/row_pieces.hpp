#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "backends/cpu/kernel.hpp"

/// Rows that are measured before they are written, cut into pieces so that one long row occupies
/// all tasks. Pieces are the same for any number of tasks, and so are results.
namespace heddle::cpu {

/// Elements of a piece: with what is written for it, it stays in the first cache.
inline constexpr std::int64_t kRowPiece = 2048;

inline std::int64_t pieces_of_row(std::int64_t n) {
    return std::max<std::int64_t>(1, (n + kRowPiece - 1) / kRowPiece);
}

inline Range row_piece(std::int64_t index, std::int64_t n) {
    return {index * kRowPiece, std::min((index + 1) * kRowPiece, n)};
}

/// Below so many rows per task, tasks share pieces instead of rows, unless rows are single pieces.
inline constexpr std::int64_t kLeastRowsPerTask = 4;

/// What is known of a piece takes at most this.
inline constexpr std::size_t kPieceSize = 16;

/// What a node wants that goes over the rows of `x` in pieces.
inline Demand pieces_demand(const Tensor& x, double bytes, double flops, int threads) {
    const std::int64_t pieces = pieces_of_row(x.ne[0]);
    const int tasks = worthwhile_tasks(bytes, flops, pieces * row_count(x), threads);
    return {.tasks = tasks,
            .scratch = static_cast<std::size_t>(tasks * kLeastRowsPerTask * pieces) * kPieceSize};
}

/// Bytes for a row of `n` floats that passes through a buffer, and what is known of its pieces.
inline std::size_t buffered_row_size(std::int64_t n) {
    const auto parts = static_cast<std::size_t>(pieces_of_row(n)) * kPieceSize;
    return (parts + static_cast<std::size_t>(n) * sizeof(float) + 63) / 64 * 64;
}

/// For this task's share of the rows of `x`: `measure(row, range)` gives a Part for each piece,
/// `combine(row, parts)` makes one value of those of a row, `finish(row, range, part, value)`
/// writes each piece. Parts lie in the scratch memory.
template <class Part, class Measure, class Combine, class Finish>
void work_in_pieces(const Tensor& x, const Task& task, Measure measure, Combine combine,
                    Finish finish) {
    static_assert(sizeof(Part) <= kPieceSize && kPieceSize % alignof(Part) == 0);
    const std::int64_t n = x.ne[0], rows = row_count(x), pieces = pieces_of_row(n);
    const auto part_at = [&](std::int64_t index) -> Part* {
        return reinterpret_cast<Part*>(task.scratch) + index;
    };
    if (task.count == 1 || pieces == 1 || rows >= kLeastRowsPerTask * task.count) {
        // Several short rows at a time: the end of measuring one hides behind the next.
        const std::int64_t together = std::clamp<std::int64_t>(
            kRowPiece / std::max<std::int64_t>(n, 1), 1, kLeastRowsPerTask);
        Part* own = reinterpret_cast<Part*>(
            task.scratch +
            static_cast<std::size_t>(task.index * kLeastRowsPerTask * pieces) * kPieceSize);
        Row waiting[kLeastRowsPerTask];
        std::int64_t count = 0;
        const auto finish_waiting = [&] {
            for (std::int64_t k = 0; k < count; ++k) {
                const Part* parts = own + k * pieces;
                const auto value = combine(
                    waiting[k], std::span<const Part>(parts, static_cast<std::size_t>(pieces)));
                for (std::int64_t i = 0; i < pieces; ++i) {
                    finish(waiting[k], row_piece(i, n), parts[i], value);
                }
            }
            count = 0;
        };
        for_rows(x, task.share(rows), [&](Row row) {
            for (std::int64_t i = 0; i < pieces; ++i) {
                own[count * pieces + i] = measure(row, row_piece(i, n));
            }
            waiting[count++] = row;
            if (count == together) finish_waiting();
        });
        finish_waiting();
        return;
    }
    const auto row_of = [&](std::int64_t index) {
        return Row{index % x.ne[1], index / x.ne[1] % x.ne[2], index / (x.ne[1] * x.ne[2])};
    };
    const Range mine = task.share(rows * pieces);
    for (std::int64_t i = mine.begin; i < mine.end; ++i) {
        *part_at(i) = measure(row_of(i / pieces), row_piece(i % pieces, n));
    }
    task.sync();
    for (std::int64_t i = mine.begin; i < mine.end;) {
        const std::int64_t first = i / pieces * pieces;
        const Row row = row_of(i / pieces);
        const std::span<const Part> parts(part_at(first), static_cast<std::size_t>(pieces));
        const auto value = combine(row, parts);
        for (; i < std::min(first + pieces, mine.end); ++i) {
            finish(row, row_piece(i - first, n), *part_at(i), value);
        }
    }
}

}  // namespace heddle::cpu
