#pragma once

#include <cstdint>

#include "backends/cpu/dot/multiplier.hpp"
#include "backends/cpu/kernel.hpp"

/// How matrix products are cut into pieces. The cut changes no result.
namespace heddle::cpu {

/// Columns of a piece. A row of a is fetched once for all of them.
inline constexpr std::int64_t kColumnBlock = 64;

/// Rows of a piece: what stays in L2, and a multiple of every tile.
inline constexpr std::int64_t kMostRows = 48;
inline constexpr std::int64_t kLeastRows = 12;

inline std::int64_t blocks_of(std::int64_t n, std::int64_t size) { return (n + size - 1) / size; }

/// Rows per piece, so that `tasks` tasks with `columns` blocks of columns have a few pieces each.
inline std::int64_t rows_per_piece(std::int64_t rows, std::int64_t columns, int tasks,
                                   std::int64_t most = kMostRows) {
    const std::int64_t wanted = rows * columns / (std::int64_t{4} * tasks);
    const std::int64_t bounded = wanted < most ? wanted : most;
    return bounded < kLeastRows ? kLeastRows : bounded / kLeastRows * kLeastRows;
}

/// The columns of a piece: where rows of b are, and where results go.
struct ColumnSet {
    const std::byte* b[kColumnBlock];
    float* out[kColumnBlock];
    int count = 0;

    void add(const std::byte* row, float* to) {
        b[count] = row;
        out[count] = to;
        ++count;
    }
};

/// Why a product of rows of `a` and rows of `b` cannot be computed; empty if it can.
inline std::string_view product_objection(const Tensor& a, const Tensor& b, const Tensor& y) {
    const Type dot_type = dot_type_of(a.type);
    if (dot_type == GGML_TYPE_COUNT) return "there is no dot product for the type of a";
    if (b.type != GGML_TYPE_F32 && b.type != dot_type) return "b is neither f32 nor a's dot type";
    if (a.nb[0] != size_of(a.type)) return "rows of a are not dense";
    if (b.nb[0] != size_of(b.type)) return "rows of b are not dense";
    if (y.type != GGML_TYPE_F32 || y.nb[0] != sizeof(float)) return "the result is not dense f32";
    return {};
}

}  // namespace heddle::cpu
