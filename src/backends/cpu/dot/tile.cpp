#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/dot/tile.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include "backends/cpu/dot/multiplier.hpp"
#include "backends/cpu/dot/tile_products.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

/// No more columns than this are all multiplied with a few rows before going on to other rows.
constexpr int kNearColumns = 8;

/// How so many columns are multiplied: with `rows` rows at a time, or one. `multiply_near` asks for
/// nothing: with most of the tiles there is nothing to ask for, and loads to do instead.
struct Tile {
    using Multiply = void (*)(const Piece& piece, const float* const* columns, float* const* out);

    int columns = 0;
    int rows = 0;
    Multiply multiply = nullptr;
    Multiply multiply_near = nullptr;
    Multiply multiply_one = nullptr;
};

template <class T, bool kHold, int kColumns = kTileColumns>
Tile tile_of(int columns) {
    if constexpr (kColumns > 1) {
        if (columns < kColumns) return tile_of<T, kHold, kColumns - 1>(columns);
    }
    constexpr int kRows = rows_beside(kColumns);
#if HWY_HAVE_SCALABLE
    constexpr auto kNear = dot_tile<kRows, kColumns, kHold, T>;
#else
    constexpr auto kNear = dot_tile<kRows, kColumns, kHold, T, false>;
#endif
    return {kColumns, kRows, dot_tile<kRows, kColumns, kHold, T>, kNear,
            dot_tile<1, kColumns, kHold, T>};
}

/// Multiplies a piece of all rows of a view with the columns of a few tiles. This is turn `turn`
/// of `turns`: each asks for its part of the rows that come next.
void multiply_tiles(const MatrixView& view, Piece piece, const Tile* tiles, int count,
                    const float* const* columns, float* const* out, int turn, int turns) {
    const std::size_t next = piece.next;
    int left = turn;
    std::int64_t rows = tiles[0].rows;
    for (std::int64_t r = 0; r < view.count; r += rows) {
        if (view.count - r < rows) rows = 1;
        piece.rows = view.rows + static_cast<std::size_t>(r) * view.pitch;
        piece.at = r;
        piece.next = left == 0 ? next : 0;
        left = left == 0 ? turns - 1 : left - 1;
        int first = 0;
        for (int t = 0; t < count; ++t) {
            const Tile& tile = tiles[t];
            const auto multiply = rows == 1         ? tile.multiply_one
                                  : piece.next == 0 ? tile.multiply_near
                                                    : tile.multiply;
            multiply(piece, columns + first, out + first);
            first += tile.columns;
            piece.next = 0;
        }
    }
}

template <class T, bool kHold>
void multiply_all(const MatrixView& view, const float* const* b, float* const* out, int columns) {
    const int tile_count = (columns + kTileColumns - 1) / kTileColumns;
    const int at_once = columns <= kNearColumns ? tile_count : 1, turns = tile_count / at_once;
    std::int64_t begin = 0;
    do {
        const std::int64_t left = view.depth - begin;
        // More of the same rows, or the begin of those after them.
        const std::size_t next = left > kDepth<T>
                                     ? static_cast<std::size_t>(kDepth<T>) * sizeof(T)
                                     : static_cast<std::size_t>(view.count) * view.pitch -
                                           static_cast<std::size_t>(begin) * sizeof(T);
        const Piece piece{view.rows, view.pitch, begin, left < kDepth<T> ? left : kDepth<T>,
                          next,      0};
        int first = 0, tiles_left = tile_count;
        for (int turn = 0; turn < turns; ++turn) {
            Tile tiles[kNearColumns / kTileColumns];
            int end = first;
            for (int t = 0; t < at_once; ++t, --tiles_left) {
                tiles[t] = tile_of<T, kHold>((columns - end + tiles_left - 1) / tiles_left);
                end += tiles[t].columns;
            }
            multiply_tiles(view, piece, tiles, at_once, b + first, out + first, turn, turns);
            first = end;
        }
        begin += kDepth<T>;
    } while (begin < view.depth);
}

#if !HWY_HAVE_SCALABLE
/// Rows and columns that are shorter than a vector, filled up with zeros.
template <class T>
HWY_NOINLINE void multiply_short(const MatrixView& view, const float* const* b, float* const* out,
                                 int columns) {
    constexpr int kAtOnce = 48;  // of both
    constexpr auto kLength = static_cast<std::int64_t>(hn::MaxLanes(Lanes()));
    HWY_ALIGN float rows[kAtOnce][kLength] = {};
    HWY_ALIGN float filled[kAtOnce][kLength] = {};
    const auto fill = [&](const auto* from, float* to) HWY_ATTR {
        for (std::int64_t i = 0; i < view.depth; ++i) to[i] = to_float(from[i]);
    };
    for (std::int64_t r = 0; r < view.count; r += kAtOnce) {
        const auto* first = reinterpret_cast<const std::byte*>(rows);
        MatrixView part{GGML_TYPE_F32, first, sizeof rows[0], view.count - r, kLength};
        if (part.count > kAtOnce) part.count = kAtOnce;
        for (std::int64_t i = 0; i < part.count; ++i) {
            const std::byte* row = view.rows + static_cast<std::size_t>(r + i) * view.pitch;
            fill(reinterpret_cast<const T*>(row), rows[i]);
        }
        for (int c = 0; c < columns; c += kAtOnce) {
            const int width = columns - c < kAtOnce ? columns - c : kAtOnce;
            const float* from[kAtOnce];
            float* to[kAtOnce];
            for (int i = 0; i < width; ++i) {
                fill(b[c + i], filled[i]);
                from[i] = filled[i];
                to[i] = out[c + i] + r;
            }
            multiply_all<float, true>(part, from, to, width);
        }
    }
}
#endif

template <class T>
void multiply_plain(const MatrixView& view, const std::byte* const* b, float* const* out,
                    int columns) {
    const auto* const* y = reinterpret_cast<const float* const*>(b);
    if (columns <= 0) return;
#if !HWY_HAVE_SCALABLE
    if (view.depth < static_cast<std::int64_t>(hn::MaxLanes(Lanes()))) {
        return multiply_short<T>(view, y, out, columns);
    }
#endif
    if (columns > kFewColumns) return multiply_all<T, true>(view, y, out, columns);
    // Rows are waited for: loads that run far ahead of products would only stand in their way.
    multiply_all<T, false>(view, y, out, columns);
}

}  // namespace

MultiplyRows plain_multiply(Type type) {
    if (type == GGML_TYPE_F32) return multiply_plain<float>;
    if (type == GGML_TYPE_F16) return multiply_plain<F16>;
    if (type == GGML_TYPE_BF16) return multiply_plain<Bf16>;
    return nullptr;
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(plain_multiply);

MultiplyRows plain_multiply_of(Type type) { return HWY_DYNAMIC_DISPATCH(plain_multiply)(type); }

}  // namespace heddle::cpu
#endif
