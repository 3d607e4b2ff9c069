// Dot products of rows of blocks, over the formats' own ways to unpack a block. Included once per
// instruction set, inside a file that is compiled by foreach_target.h.
//
// A format turns a block into whole numbers of 16 bits, into which its small integer scales are
// already multiplied. What is left to do is the same for all formats, and exact: products with
// codes of 8 bits, summed in 32 bits.
#if defined(HEDDLE_CPU_DOT_BLOCK_DOT_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_DOT_BLOCK_DOT_HPP
#undef HEDDLE_CPU_DOT_BLOCK_DOT_HPP
#else
#define HEDDLE_CPU_DOT_BLOCK_DOT_HPP
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "backends/cpu/dot/dot.hpp"
#include "backends/cpu/dot/lanes.hpp"
#include "ggml-common.h"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
HWY_INLINE T read(const std::byte* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

/// sum of a[i] * b[i] for `kCount` codes, spread over the lanes of `sums`.
template <int kCount, class D>
HWY_INLINE hn::VFromD<D> dot_codes(D sums, const std::int16_t* HWY_RESTRICT a,
                                   const std::byte* HWY_RESTRICT b) {
    const auto* codes = reinterpret_cast<const std::int8_t*>(b);
#if HWY_TARGET == HWY_SCALAR  // has no two halves to a word
    std::int32_t sum = 0;
    for (int i = 0; i < kCount; ++i) sum += a[i] * codes[i];
    return hn::Set(sums, sum);
#else
    const hn::RepartitionToNarrow<D> words;
    const hn::Rebind<std::int8_t, decltype(words)> bytes;
    auto sum0 = hn::Zero(sums), sum1 = hn::Zero(sums);
    for (std::size_t i = 0; i < kCount; i += hn::Lanes(words)) {
        const auto other = hn::PromoteTo(words, hn::LoadU(bytes, codes + i));
        sum0 = hn::ReorderWidenMulAccumulate(sums, hn::LoadU(words, a + i), other, sum0, sum1);
    }
    return hn::Add(sum0, sum1);
#endif
}

// ---- second operand q8_0 or q8_1 ---------------------------------------------------------------

/// What q8_0 and q8_1 have in common.
template <class Other>
HWY_INLINE const std::byte* codes_of(const std::byte* block) {
    return block + offsetof(Other, qs);
}

/// One block of a row with the blocks of one column that lie against it.
///
/// `part` collects the products, `rest` what belongs to the format's minima.
template <class Format, class DF>
HWY_INLINE hn::VFromD<DF> add_simple(DF lanes, const typename Format::Block& block,
                                     const std::int16_t* codes, const std::byte* y,
                                     hn::VFromD<DF> part, float& rest) {
    using Other = typename Format::Other;
    constexpr int kGroup = Format::kGroup;
    const hn::Rebind<std::int32_t, DF> sums;
    for (int at = 0; at < Format::kElements; at += kGroup) {
        const std::byte* other = y + static_cast<std::size_t>(at / 32) * sizeof(Other);
        const float d = half_to_float(read<std::uint16_t>(other));
        const auto sum =
            dot_codes<kGroup>(sums, codes + at, codes_of<Other>(other) + at % 32);
        const auto scale = hn::Set(lanes, Format::scale(block, at / kGroup) * d);
        part = hn::MulAdd(hn::ConvertTo(lanes, sum), scale, part);
        if constexpr (Format::kHasMinimum) {
            rest += half_to_float(block.m) *
                    half_to_float(read<std::uint16_t>(other + offsetof(Other, s)));
        }
    }
    return part;
}

template <class Format, int kColumns>
void dot_simple(std::int64_t n, const void* x, const void* const* y, float* out) {
    using Block = typename Format::Block;
    constexpr std::size_t kStep = Format::kElements / 32 * sizeof(typename Format::Other);
    const hn::CappedTag<float, Format::kGroup / 2> lanes;
    auto part0 = hn::Zero(lanes), part1 = part0, part2 = part0, part3 = part0;
    float rest[4] = {};
    const auto* row = static_cast<const std::byte*>(x);
    const auto* const* columns = reinterpret_cast<const std::byte* const*>(y);
    std::size_t at = 0;
    HWY_ALIGN std::int16_t codes[Format::kElements];
    for (std::int64_t i = 0; i < n; i += Format::kElements, row += sizeof(Block), at += kStep) {
        const Block block = read<Block>(row);
        Format::unpack(block, codes);
        part0 = add_simple<Format>(lanes, block, codes, columns[0] + at, part0, rest[0]);
        if constexpr (kColumns == 4) {
            part1 = add_simple<Format>(lanes, block, codes, columns[1] + at, part1, rest[1]);
            part2 = add_simple<Format>(lanes, block, codes, columns[2] + at, part2, rest[2]);
            part3 = add_simple<Format>(lanes, block, codes, columns[3] + at, part3, rest[3]);
        }
    }
    out[0] = hn::GetLane(hn::SumOfLanes(lanes, part0)) + rest[0];
    if constexpr (kColumns == 4) {
        out[1] = hn::GetLane(hn::SumOfLanes(lanes, part1)) + rest[1];
        out[2] = hn::GetLane(hn::SumOfLanes(lanes, part2)) + rest[2];
        out[3] = hn::GetLane(hn::SumOfLanes(lanes, part3)) + rest[3];
    }
}

// ---- second operand q8_K -----------------------------------------------------------------------

/// What is left of a super-block once it is unpacked.
struct SuperBlock {
    HWY_ALIGN std::int16_t codes[QK_K];   ///< times the integer scales
    HWY_ALIGN std::int16_t minima[QK_K / 16];  ///< for formats that have them
    float d;                              ///< unit of the codes
    float dmin;                           ///< unit of the minima
};

template <bool kHasMinima, class DF>
HWY_INLINE hn::VFromD<DF> add_super(DF lanes, const SuperBlock& block, const std::byte* y,
                                    hn::VFromD<DF> part, float& rest) {
    const hn::Rebind<std::int32_t, DF> sums;
    const float d = read<float>(y + offsetof(block_q8_K, d));
    const auto sum = dot_codes<QK_K>(sums, block.codes, y + offsetof(block_q8_K, qs));
    part = hn::MulAdd(hn::ConvertTo(lanes, sum), hn::Set(lanes, block.d * d), part);
    if constexpr (kHasMinima) {
        std::int16_t code_sums[QK_K / 16];
        std::memcpy(code_sums, y + offsetof(block_q8_K, bsums), sizeof code_sums);
        std::int32_t below = 0;
        for (int g = 0; g < QK_K / 16; ++g) below += block.minima[g] * code_sums[g];
        rest -= block.dmin * d * static_cast<float>(below);
    }
    return part;
}

template <class Format, int kColumns>
void dot_super(std::int64_t n, const void* x, const void* const* y, float* out) {
    using Block = typename Format::Block;
    const hn::CappedTag<float, 16> lanes;
    auto part0 = hn::Zero(lanes), part1 = part0, part2 = part0, part3 = part0;
    float rest[4] = {};
    const auto* row = static_cast<const std::byte*>(x);
    const auto* const* columns = reinterpret_cast<const std::byte* const*>(y);
    std::size_t at = 0;
    const Format format;
    SuperBlock block;
    for (std::int64_t i = 0; i < n; i += QK_K, row += sizeof(Block), at += sizeof(block_q8_K)) {
        format.unpack(read<Block>(row), block);
        constexpr bool kMinima = Format::kHasMinima;
        part0 = add_super<kMinima>(lanes, block, columns[0] + at, part0, rest[0]);
        if constexpr (kColumns == 4) {
            part1 = add_super<kMinima>(lanes, block, columns[1] + at, part1, rest[1]);
            part2 = add_super<kMinima>(lanes, block, columns[2] + at, part2, rest[2]);
            part3 = add_super<kMinima>(lanes, block, columns[3] + at, part3, rest[3]);
        }
    }
    out[0] = hn::GetLane(hn::SumOfLanes(lanes, part0)) + rest[0];
    if constexpr (kColumns == 4) {
        out[1] = hn::GetLane(hn::SumOfLanes(lanes, part1)) + rest[1];
        out[2] = hn::GetLane(hn::SumOfLanes(lanes, part2)) + rest[2];
        out[3] = hn::GetLane(hn::SumOfLanes(lanes, part3)) + rest[3];
    }
}

// ---- any number of columns ---------------------------------------------------------------------

template <class Format>
void dot_simple_columns(std::int64_t n, const void* x, const void* const* y, float* out,
                        int columns) {
    if (columns == 4) return dot_simple<Format, 4>(n, x, y, out);
    for (int c = 0; c < columns; ++c) dot_simple<Format, 1>(n, x, y + c, out + c);
}

template <class Format>
void dot_super_columns(std::int64_t n, const void* x, const void* const* y, float* out,
                       int columns) {
    if (columns == 4) return dot_super<Format, 4>(n, x, y, out);
    for (int c = 0; c < columns; ++c) dot_super<Format, 1>(n, x, y + c, out + c);
}

/// A row of a family's list.
struct DotEntry {
    Type type;
    DotColumns dot;
};

template <std::size_t kCount>
DotColumns find_dot(const DotEntry (&entries)[kCount], Type type) {
    for (const DotEntry& entry : entries) {
        if (entry.type == type) return entry.dot;
    }
    return nullptr;
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
