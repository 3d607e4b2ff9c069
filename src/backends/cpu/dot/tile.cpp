#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/dot/tile.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include "backends/cpu/dot/lanes.hpp"
#include "backends/cpu/dot/panel.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

/// Rows and columns whose sums are kept in registers. Of 16 registers, 3 x 4 sums leave one for
/// each row and one for the column at hand.
constexpr int kTileColumns = 4;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_SSSE3
constexpr int kTileRows = 3;
#else
constexpr int kTileRows = 4;
#endif

/// Elements of rows that are multiplied in one go: four columns of these stay in the first cache,
/// the rows of a panel in the second.
constexpr std::int64_t kDepth = 1024;

/// A piece of the rows of a tile.
struct Piece {
    std::int64_t begin;  ///< first element
    std::int64_t count;
    bool add;  ///< to what is in the results already

    /// From a row to what will be needed in its place: asked for meanwhile, for a piece of a row
    /// is too short for the processor to see where this leads.
    std::size_t next;
};

/// Into the second cache: the first has no room for it yet.
HWY_INLINE void fetch(const std::byte* from) {
#if defined(__GNUC__)
    __builtin_prefetch(from, 0, 2);
#else
    hwy::Prefetch(from);
#endif
}

template <class D>
HWY_INLINE void put(D lanes, hn::VFromD<D> sum, const Piece& piece, float tail, float* to) {
    const float total = hn::GetLane(hn::SumOfLanes(lanes, sum)) + tail;
    *to = piece.add ? *to + total : total;
}

/// The products of what is left over at the end of two rows.
template <class T>
HWY_INLINE float dot_tail(const T* a, const float* b, std::int64_t begin, std::int64_t end) {
    float sum = 0;
    for (std::int64_t i = begin; i < end; ++i) sum += to_float(a[i]) * b[i];
    return sum;
}

/// out[c][r] = the products of a piece of `kRows` rows of a and `kColumns` rows of b. The sums have
/// names of their own because vectors of some machines cannot stand in arrays.
template <int kRows, int kColumns, class T>
void dot_tile(const std::byte* rows, std::size_t pitch, const float* const* columns,
              const Piece& piece, float* const* out, std::int64_t at) {
    const hn::ScalableTag<float> lanes;
    const auto step = static_cast<std::int64_t>(hn::Lanes(lanes));
    const T* a[4];
    const float* b[4];
    for (int r = 0; r < kRows; ++r) {
        a[r] = reinterpret_cast<const T*>(rows + static_cast<std::size_t>(r) * pitch) + piece.begin;
    }
    for (int c = 0; c < kColumns; ++c) b[c] = columns[c] + piece.begin;

    auto s00 = hn::Zero(lanes), s10 = s00, s20 = s00, s30 = s00, s01 = s00, s11 = s00, s21 = s00,
         s31 = s00, s02 = s00, s12 = s00, s22 = s00, s32 = s00, s03 = s00, s13 = s00, s23 = s00,
         s33 = s00;
    std::int64_t i = 0;
    for (; i + step <= piece.count; i += step) {
        const auto a0 = load_f32(lanes, a[0] + i);
        const auto a1 = kRows > 1 ? load_f32(lanes, a[kRows > 1 ? 1 : 0] + i) : a0;
        const auto a2 = kRows > 2 ? load_f32(lanes, a[kRows > 2 ? 2 : 0] + i) : a0;
        const auto a3 = kRows > 3 ? load_f32(lanes, a[kRows > 3 ? 3 : 0] + i) : a0;
        HWY_UNROLL(4)
        for (int r = 0; r < kRows; ++r) {
            fetch(reinterpret_cast<const std::byte*>(a[r] + i) + piece.next);
        }
        {
            const auto b0 = hn::LoadU(lanes, b[0] + i);
            s00 = hn::MulAdd(a0, b0, s00);
            if constexpr (kRows > 1) s10 = hn::MulAdd(a1, b0, s10);
            if constexpr (kRows > 2) s20 = hn::MulAdd(a2, b0, s20);
            if constexpr (kRows > 3) s30 = hn::MulAdd(a3, b0, s30);
        }
        if constexpr (kColumns > 1) {
            const auto b1 = hn::LoadU(lanes, b[1] + i);
            s01 = hn::MulAdd(a0, b1, s01);
            if constexpr (kRows > 1) s11 = hn::MulAdd(a1, b1, s11);
            if constexpr (kRows > 2) s21 = hn::MulAdd(a2, b1, s21);
            if constexpr (kRows > 3) s31 = hn::MulAdd(a3, b1, s31);
        }
        if constexpr (kColumns > 2) {
            const auto b2 = hn::LoadU(lanes, b[2] + i);
            s02 = hn::MulAdd(a0, b2, s02);
            if constexpr (kRows > 1) s12 = hn::MulAdd(a1, b2, s12);
            if constexpr (kRows > 2) s22 = hn::MulAdd(a2, b2, s22);
            if constexpr (kRows > 3) s32 = hn::MulAdd(a3, b2, s32);
        }
        if constexpr (kColumns > 3) {
            const auto b3 = hn::LoadU(lanes, b[3] + i);
            s03 = hn::MulAdd(a0, b3, s03);
            if constexpr (kRows > 1) s13 = hn::MulAdd(a1, b3, s13);
            if constexpr (kRows > 2) s23 = hn::MulAdd(a2, b3, s23);
            if constexpr (kRows > 3) s33 = hn::MulAdd(a3, b3, s33);
        }
    }

    const auto finish = [&](auto sum, int r, int c) HWY_ATTR {
        put(lanes, sum, piece, dot_tail(a[r], b[c], i, piece.count), out[c] + at + r);
    };
    finish(s00, 0, 0);
    if constexpr (kRows > 1) finish(s10, 1, 0);
    if constexpr (kRows > 2) finish(s20, 2, 0);
    if constexpr (kRows > 3) finish(s30, 3, 0);
    if constexpr (kColumns > 1) {
        finish(s01, 0, 1);
        if constexpr (kRows > 1) finish(s11, 1, 1);
        if constexpr (kRows > 2) finish(s21, 2, 1);
        if constexpr (kRows > 3) finish(s31, 3, 1);
    }
    if constexpr (kColumns > 2) {
        finish(s02, 0, 2);
        if constexpr (kRows > 1) finish(s12, 1, 2);
        if constexpr (kRows > 2) finish(s22, 2, 2);
        if constexpr (kRows > 3) finish(s32, 3, 2);
    }
    if constexpr (kColumns > 3) {
        finish(s03, 0, 3);
        if constexpr (kRows > 1) finish(s13, 1, 3);
        if constexpr (kRows > 2) finish(s23, 2, 3);
        if constexpr (kRows > 3) finish(s33, 3, 3);
    }
}

template <int kRows, class T>
void dot_rows(const std::byte* rows, std::size_t pitch, const float* const* columns, int width,
              const Piece& piece, float* const* out, std::int64_t at) {
    switch (width) {
        case 1:
            return dot_tile<kRows, 1, T>(rows, pitch, columns, piece, out, at);
        case 2:
            return dot_tile<kRows, 2, T>(rows, pitch, columns, piece, out, at);
        case 3:
            return dot_tile<kRows, 3, T>(rows, pitch, columns, piece, out, at);
        default:
            return dot_tile<kRows, 4, T>(rows, pitch, columns, piece, out, at);
    }
}

template <class T>
void multiply_plain(const Panel& panel, const std::byte* const* b, float* const* out, int columns) {
    const auto* const* y = reinterpret_cast<const float* const*>(b);
    std::int64_t begin = 0;
    do {
        const std::int64_t left = panel.depth - begin;
        Piece piece{begin, left < kDepth ? left : kDepth, begin > 0, 0};
        for (int c = 0; c < columns; c += kTileColumns) {
            piece.next = c == 0 ? kTileRows * panel.pitch : 0;  // rows come from far away once
            const int width = columns - c < kTileColumns ? columns - c : kTileColumns;
            const std::byte* row = panel.rows;
            std::int64_t r = 0;
            for (; r + kTileRows <= panel.count; r += kTileRows, row += kTileRows * panel.pitch) {
                dot_rows<kTileRows, T>(row, panel.pitch, y + c, width, piece, out + c, r);
            }
            for (; r < panel.count; ++r, row += panel.pitch) {
                dot_rows<1, T>(row, panel.pitch, y + c, width, piece, out + c, r);
            }
        }
        begin += kDepth;
    } while (begin < panel.depth);
}

}  // namespace

MultiplyPanel plain_panel(Type type) {
    if (type == GGML_TYPE_F32) return multiply_plain<float>;
    if (type == GGML_TYPE_F16) return multiply_plain<F16>;
    if (type == GGML_TYPE_BF16) return multiply_plain<Bf16>;
    return nullptr;
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(plain_panel);

MultiplyPanel plain_panel_of(Type type) { return HWY_DYNAMIC_DISPATCH(plain_panel)(type); }

}  // namespace heddle::cpu
#endif
