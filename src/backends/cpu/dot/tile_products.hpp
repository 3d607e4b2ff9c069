// Products of a few rows with a few columns, whose sums stay in registers until they are done.
// Included once per instruction set, inside a file that is compiled by foreach_target.h.
#if defined(HEDDLE_CPU_DOT_TILE_PRODUCTS_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_DOT_TILE_PRODUCTS_HPP
#undef HEDDLE_CPU_DOT_TILE_PRODUCTS_HPP
#else
#define HEDDLE_CPU_DOT_TILE_PRODUCTS_HPP
#endif

#include <hwy/highway.h>

#include "backends/cpu/dot/lanes.hpp"
#include "backends/cpu/dot/prefetch.hpp"
#include "simd/opaque.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

using Lanes = hn::ScalableTag<float>;
using Vec = hn::Vec<Lanes>;

// Columns whose sums are kept in registers, and rows for so many columns. With 16 registers, 3 x 4
// sums leave one for each row and one for the column at hand; with 32, so do 3 x 8. With few
// columns (`kFewColumns`), rows do not come from memory as fast as they are multiplied.
#if HWY_HAVE_SCALABLE
constexpr int kTileColumns = 4, kFewColumns = 4;
constexpr int rows_beside(int) { return 4; }
#elif HWY_ARCH_X86 && HWY_TARGET >= HWY_AVX2
constexpr int kTileColumns = 4, kFewColumns = 4;
constexpr int rows_beside(int) { return 3; }
#else
constexpr int kTileColumns = 8, kFewColumns = 6;
constexpr int rows_beside(int columns) { return columns > 6 ? 3 : 4; }
#endif
constexpr int kMostTileRows = 4;

/// Elements of rows that are multiplied in one go. As much of a tile's columns stays in L1,
/// so that the only ones to wait there are rows; the rows of a view stay in L2. A
/// single lane adds up fewer: longer chains of sums would be less accurate.
template <class T>
constexpr std::int64_t kDepth = hn::MaxLanes(Lanes()) == 1 ? 512 : 2048 / sizeof(T);

/// A piece of the rows of a tile.
struct Piece {
    const std::byte* rows;  ///< the first of them
    std::size_t pitch;      ///< of rows
    std::int64_t begin;     ///< first element
    std::int64_t count;     ///< of elements

    /// From elements of a row to others that will be needed later: asked for meanwhile, for a
    /// piece of a row is too short for the CPU to see where this leads.
    std::size_t next;

    std::int64_t at;  ///< the first row's place in the results
};

/// `value`, in a register: loaded again for each product, it would take longer than the products.
template <bool kHold>
HWY_INLINE Vec held(Vec value) {
    if constexpr (kHold) opaque(value);
    return value;
}

/// The sum of the lanes of each of four vectors. Lanes are added in the same order for all.
HWY_INLINE void add_lanes(Lanes lanes, Vec v0, Vec v1, Vec v2, Vec v3, float* to) {
#if HWY_HAVE_SCALABLE || HWY_TARGET == HWY_SCALAR
    to[0] = hn::GetLane(hn::SumOfLanes(lanes, v0));
    to[1] = hn::GetLane(hn::SumOfLanes(lanes, v1));
    to[2] = hn::GetLane(hn::SumOfLanes(lanes, v2));
    to[3] = hn::GetLane(hn::SumOfLanes(lanes, v3));
#else
    const hn::Repartition<std::uint64_t, Lanes> pairs;
    const auto both = [&](Vec a, Vec b) HWY_ATTR {
        const Vec lower = hn::InterleaveLower(lanes, a, b);
        return hn::BitCast(pairs, hn::Add(lower, hn::InterleaveUpper(lanes, a, b)));
    };
    const auto v01 = both(v0, v1), v23 = both(v2, v3);
    const auto lower = hn::BitCast(lanes, hn::InterleaveLower(pairs, v01, v23));
    const auto sums = hn::Add(lower, hn::BitCast(lanes, hn::InterleaveUpper(pairs, v01, v23)));
    // Lane i of each block of four has a part of the sum of vector i.
    const hn::FixedTag<float, 4> four;
#if HWY_MAX_BYTES == 16
    hn::StoreU(sums, four, to);
#else
#if HWY_MAX_BYTES == 32
    const auto half = sums;
#else
    const hn::FixedTag<float, 8> eight;
    const auto half = hn::Add(hn::LowerHalf(eight, sums), hn::UpperHalf(eight, sums));
#endif
    hn::StoreU(hn::Add(hn::LowerHalf(four, half), hn::UpperHalf(four, half)), four, to);
#endif
#endif
}

/// Puts the sums of a column with each row into their places.
template <int kRows>
HWY_INLINE void put_sums(Lanes lanes, Vec v0, Vec v1, Vec v2, Vec v3, bool add, float* to) {
    HWY_ALIGN float sums[kMostTileRows];
    add_lanes(lanes, v0, v1, v2, v3, sums);
    HWY_UNROLL(4)
    for (int r = 0; r < kRows; ++r) to[r] = add ? to[r] + sums[r] : sums[r];
}

/// A vector of elements of a row, when there is more to multiply than to load.
template <class T>
HWY_INLINE Vec load_busily(Lanes lanes, const T* from) {
    return load_f32(lanes, from);
}

#if HWY_TARGET == HWY_AVX2
/// One shuffle: to widen and to shift would be two steps, which take the place of products.
HWY_INLINE Vec load_busily(Lanes lanes, const Bf16* from) {
    const hn::Repartition<std::uint8_t, Lanes> bytes;
    constexpr std::uint8_t kNone = 0x80;  // a zero
    alignas(32) static constexpr std::uint8_t kPlaces[32] = {
        kNone, kNone, 0, 1, kNone, kNone, 2,  3,  kNone, kNone, 4,  5,  kNone, kNone, 6,  7,
        kNone, kNone, 8, 9, kNone, kNone, 10, 11, kNone, kNone, 12, 13, kNone, kNone, 14, 15};
    const auto* places = reinterpret_cast<const std::byte*>(kPlaces);
    opaque(places);  // loaded each time: there is no register left for them
    const auto as_bytes = [](const void* at) { return static_cast<const std::uint8_t*>(at); };
    const auto eight = hn::LoadDup128(bytes, as_bytes(from));
    return hn::BitCast(lanes, hn::TableLookupBytesOr0(eight, hn::Load(bytes, as_bytes(places))));
}
#endif

/// Where elements of the rows of a tile are: of four at most, the first at `first`.
struct TileRows {
    const std::byte* first;
    std::size_t pitch;
    std::size_t pitch3;  ///< no address can be made of three times a register

    template <class T, bool kHold>
    HWY_INLINE Vec load(Lanes lanes, int r) const {
        const auto* from = reinterpret_cast<const T*>(at(r));
        if constexpr (!kHold) return load_f32(lanes, from);
        return held<true>(load_busily(lanes, from));
    }
    HWY_INLINE const std::byte* at(int r) const {
        return first + (r == 3 ? pitch3 : static_cast<std::size_t>(r) * pitch);
    }
};

#if HWY_HAVE_SCALABLE

/// Adds the products of what is left over at the end of rows, from `begin` on.
template <class T>
HWY_NOINLINE void add_tails(const Piece& piece, int rows, const float* const* columns, int width,
                            std::int64_t begin, float* const* out) {
    const std::int64_t end = piece.begin + piece.count;
    for (int r = 0; r < rows; ++r) {
        const std::byte* row = piece.rows + static_cast<std::size_t>(r) * piece.pitch;
        const auto* a = reinterpret_cast<const T*>(row);
        for (int c = 0; c < width; ++c) {
            float sum = 0;
            for (std::int64_t i = begin; i < end; ++i) sum += to_float(a[i]) * columns[c][i];
            out[c][piece.at + r] += sum;
        }
    }
}

template <int kRows, class V>
HWY_INLINE void multiply_column(V b, V a0, V a1, V a2, V a3, V& s0, V& s1, V& s2, V& s3) {
    s0 = hn::MulAdd(a0, b, s0);
    if constexpr (kRows > 1) s1 = hn::MulAdd(a1, b, s1);
    if constexpr (kRows > 2) s2 = hn::MulAdd(a2, b, s2);
    if constexpr (kRows > 3) s3 = hn::MulAdd(a3, b, s3);
}

/// The same as below. The sums have names of their own because vectors of unknown size cannot stand
/// in arrays; rows and columns that are not there are others once more.
template <int kRows, int kColumns, bool kHold, class T>
void dot_tile(const Piece& piece, const float* const* columns, float* const* out) {
    const Lanes lanes;
    const auto step = static_cast<std::int64_t>(hn::Lanes(lanes));
    const std::int64_t end = piece.begin + piece.count, whole = end - piece.count % step;
    const float* b[4];
    for (int c = 0; c < 4; ++c) b[c] = columns[c < kColumns ? c : 0];
    auto s00 = hn::Zero(lanes), s01 = s00, s02 = s00, s03 = s00, s10 = s00, s11 = s00, s12 = s00,
         s13 = s00, s20 = s00, s21 = s00, s22 = s00, s23 = s00, s30 = s00, s31 = s00, s32 = s00,
         s33 = s00;
    std::int64_t i = piece.begin;
    for (; i < whole; i += step) {
        const std::byte* from = piece.rows + static_cast<std::size_t>(i) * sizeof(T);
        const TileRows rows{from, piece.pitch, 3 * piece.pitch};
        for (int r = 0; r < kRows; ++r) prefetch_l2(rows.at(r) + piece.next);
        const auto a0 = rows.template load<T, kHold>(lanes, 0);
        const auto a1 = rows.template load<T, kHold>(lanes, kRows > 1 ? 1 : 0);
        const auto a2 = rows.template load<T, kHold>(lanes, kRows > 2 ? 2 : 0);
        const auto a3 = rows.template load<T, kHold>(lanes, kRows > 3 ? 3 : 0);
        multiply_column<kRows>(hn::LoadU(lanes, b[0] + i), a0, a1, a2, a3, s00, s01, s02, s03);
        multiply_column<kRows>(hn::LoadU(lanes, b[1] + i), a0, a1, a2, a3, s10, s11, s12, s13);
        multiply_column<kRows>(hn::LoadU(lanes, b[2] + i), a0, a1, a2, a3, s20, s21, s22, s23);
        multiply_column<kRows>(hn::LoadU(lanes, b[3] + i), a0, a1, a2, a3, s30, s31, s32, s33);
    }
    const auto put = [&](int c, const Vec& v0, const Vec& v1, const Vec& v2,
                         const Vec& v3) HWY_ATTR {
        if (c >= kColumns) return;
        put_sums<kRows>(lanes, v0, v1, v2, v3, piece.begin > 0, out[c] + piece.at);
    };
    put(0, s00, s01, s02, s03);
    put(1, s10, s11, s12, s13);
    put(2, s20, s21, s22, s23);
    put(3, s30, s31, s32, s33);
    if (i < end) add_tails<T>(piece, kRows, columns, kColumns, i, out);
}

#else

/// out[c][r] = (or +=) the products of a piece of `kRows` rows of a and `kColumns` rows of b.
/// `kFetch`: asks for what lies `piece.next` further on.
template <int kRows, int kColumns, bool kHold, class T, bool kFetch = true>
void dot_tile(const Piece& piece, const float* const* columns, float* const* out) {
    const Lanes lanes;
    const auto step = static_cast<std::int64_t>(hn::Lanes(lanes));
    const std::int64_t rest = piece.count % step, whole = piece.begin + piece.count - rest;
    const float* b[kColumns];
    for (int c = 0; c < kColumns; ++c) b[c] = columns[c];
    Vec sums[kColumns][kMostTileRows];
    HWY_UNROLL(8)
    for (int c = 0; c < kColumns; ++c) {
        HWY_UNROLL(4)
        for (int r = 0; r < kMostTileRows; ++r) sums[c][r] = hn::Zero(lanes);
    }

    std::int64_t i = piece.begin;
    const std::byte* from = piece.rows + static_cast<std::size_t>(i) * sizeof(T);
    TileRows near{from, piece.pitch, 3 * piece.pitch}, far = near;
    far.first += piece.next;
    for (; i < whole; i += step) {
        opaque(near.first);
        Vec a[kRows];
        HWY_UNROLL(4)
        for (int r = 0; r < kRows; ++r) a[r] = near.template load<T, kHold>(lanes, r);
        near.first += static_cast<std::size_t>(step) * sizeof(T);
        HWY_UNROLL(8)
        for (int c = 0; c < kColumns; ++c) {
            const Vec value = held<kHold>(hn::LoadU(lanes, b[c] + i));
            // One by one between the products, so that they do not wait for each other.
            opaque(far.first);
            HWY_UNROLL(4)
            for (int r = 0; r < kRows; ++r) {
                if (kFetch && r * kColumns / kRows == c) prefetch_l2(far.at(r));
            }
            HWY_UNROLL(4)
            for (int r = 0; r < kRows; ++r) sums[c][r] = hn::MulAdd(a[r], value, sums[c][r]);
        }
        far.first += static_cast<std::size_t>(step) * sizeof(T);
    }
    if (rest != 0) {
        // The vectors that end where rows do. What was multiplied already becomes zero, in columns
        // as well: they may hold infinite values.
        const auto is_done = hn::FirstN(lanes, static_cast<std::size_t>(step - rest));
        i -= step - rest;
        near.first -= static_cast<std::size_t>(step - rest) * sizeof(T);
        Vec a[kRows];
        HWY_UNROLL(4)
        for (int r = 0; r < kRows; ++r) {
            a[r] = hn::IfThenZeroElse(is_done, near.template load<T, kHold>(lanes, r));
        }
        HWY_UNROLL(8)
        for (int c = 0; c < kColumns; ++c) {
            const Vec value = hn::IfThenZeroElse(is_done, hn::LoadU(lanes, b[c] + i));
            HWY_UNROLL(4)
            for (int r = 0; r < kRows; ++r) sums[c][r] = hn::MulAdd(a[r], value, sums[c][r]);
        }
    }
    const bool add = piece.begin > 0;
    HWY_UNROLL(8)
    for (int c = 0; c < kColumns; ++c) {
        put_sums<kRows>(lanes, sums[c][0], sums[c][1], sums[c][2], sums[c][3], add,
                        out[c] + piece.at);
    }
}

#endif

}  // namespace
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
