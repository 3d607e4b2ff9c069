// Dot products of rows of blocks, over the formats' own ways to unpack a block. Included once per
// instruction set, inside a file that is compiled by foreach_target.h.
//
// A format turns a block into whole numbers; what is left to do is the same for all formats, and
// exact: products with codes of 8 bits, summed in 32 bits. Formats take 16 elements at a time, so
// the plain target, which has one lane, is left out: dot.cpp has something for it.
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
#include "simd/byte_products.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR

// ---- sixteen codes -----------------------------------------------------------------------------

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
#define HEDDLE_HAS_WIDE_WORDS 1  // sixteen words of 16 bits fit into a vector
#else
#define HEDDLE_HAS_WIDE_WORDS 0
#endif

using Bytes = hn::FixedTag<std::uint8_t, 16>;
using Codes = hn::FixedTag<std::int8_t, 16>;
using CodeVec = hn::Vec<Codes>;
using Sums = hn::FixedTag<std::int32_t, HEDDLE_HAS_WIDE_WORDS ? 8 : 4>;
using SumVec = hn::Vec<Sums>;
using Parts = hn::Rebind<float, Sums>;
using PartVec = hn::Vec<Parts>;
using Words = hn::FixedTag<std::int16_t, HEDDLE_HAS_WIDE_WORDS ? 16 : 8>;

template <class T>
HWY_INLINE T read(const std::byte* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

HWY_INLINE float read_half(const std::byte* from) {
    return half_to_float(read<std::uint16_t>(from));
}

HWY_INLINE hn::Vec<Bytes> load_bytes(const std::byte* from) {
    return hn::LoadU(Bytes(), reinterpret_cast<const std::uint8_t*>(from));
}

HWY_INLINE CodeVec load_codes(const std::byte* from) {
    return hn::LoadU(Codes(), reinterpret_cast<const std::int8_t*>(from));
}

// What follows serves sixteen codes of one row as well as wider vectors with sixteen codes of
// several rows.

template <class V>
HWY_INLINE auto as_codes(V bytes) {
    return hn::BitCast(hn::RebindToSigned<hn::DFromV<V> >(), bytes);
}

template <class V>
HWY_INLINE auto low_nibbles(V bytes) {
    return as_codes(hn::And(bytes, hn::Set(hn::DFromV<V>(), 15)));
}

template <class V>
HWY_INLINE auto high_nibbles(V bytes) {
    return as_codes(hn::ShiftRight<4>(bytes));
}

/// codes - value
template <class V>
HWY_INLINE V minus(V codes, std::int8_t value) {
    return hn::Sub(codes, hn::Set(hn::DFromV<V>(), value));
}

/// `value` in the lanes where `bytes` has all of the bits that `bits` has.
template <class V>
HWY_INLINE auto where_bits(V bytes, V bits, std::uint8_t value) {
    const auto is_set = hn::Eq(hn::And(bytes, bits), bits);
    return as_codes(hn::IfThenElseZero(is_set, hn::Set(hn::DFromV<V>(), value)));
}

/// Lanes that hold bit 0, 1, ... 7 and again.
template <class D>
HWY_INLINE hn::Vec<D> each_bit(D d) {
    alignas(16) static constexpr std::uint8_t kBits[16] = {1, 2, 4, 8, 16, 32, 64, 128,
                                                           1, 2, 4, 8, 16, 32, 64, 128};
    return hn::LoadDup128(d, kBits);
}

/// Of sixteen bytes, number `first` in eight lanes and the next one in eight.
template <class V>
HWY_INLINE V spread_two(V bytes, int first) {
    alignas(16) static constexpr std::uint8_t kOrder[16] = {0, 0, 0, 0, 0, 0, 0, 0,
                                                            1, 1, 1, 1, 1, 1, 1, 1};
    const hn::DFromV<V> d;
    const auto order =
        hn::Add(hn::LoadDup128(d, kOrder), hn::Set(d, static_cast<std::uint8_t>(first)));
    return hn::TableLookupBytes(bytes, order);
}

/// What `load` makes of a block, as sixteen bytes: a seam for sources of several rows.
template <class Load>
HWY_INLINE auto for_each_row(const std::byte* block, Load load) {
    return load(block);
}

/// sum + the products of sixteen codes with those at `other`.
HWY_INLINE SumVec multiply_add(CodeVec codes, const std::byte* other, SumVec sum) {
    auto rest = hn::Zero(Sums());
    const CodeVec others = load_codes(other);
#if HWY_ARCH_ARM_A64 && HEDDLE_HAS_FUSED_BYTES
    if (kHasDotProducts) {
        return SignedBytes::multiply_add(hn::BitCast(ByteLanes(), codes),
                                         hn::BitCast(WordLanes(), others), sum);
    }
#endif
#if HEDDLE_HAS_WIDE_WORDS
    return hn::ReorderWidenMulAccumulate(Sums(), hn::PromoteTo(Words(), codes),
                                         hn::PromoteTo(Words(), others), sum, rest);
#else
    const hn::FixedTag<std::int8_t, 8> half;
    sum = hn::ReorderWidenMulAccumulate(Sums(), hn::PromoteTo(Words(), hn::LowerHalf(half, codes)),
                                        hn::PromoteTo(Words(), hn::LowerHalf(half, others)), sum,
                                        rest);
    sum = hn::ReorderWidenMulAccumulate(Sums(), hn::PromoteTo(Words(), hn::UpperHalf(half, codes)),
                                        hn::PromoteTo(Words(), hn::UpperHalf(half, others)), sum,
                                        rest);
    return hn::Add(sum, rest);
#endif
}

/// Sixteen codes times a small whole number.
HWY_INLINE void put_scaled(CodeVec codes, int scale, std::int16_t* to) {
    const auto factor = hn::Set(Words(), static_cast<std::int16_t>(scale));
#if HEDDLE_HAS_WIDE_WORDS
    hn::StoreU(hn::Mul(hn::PromoteTo(Words(), codes), factor), Words(), to);
#else
    const hn::FixedTag<std::int8_t, 8> half;
    const auto low = hn::PromoteTo(Words(), hn::LowerHalf(half, codes));
    const auto high = hn::PromoteTo(Words(), hn::UpperHalf(half, codes));
    hn::StoreU(hn::Mul(low, factor), Words(), to);
    hn::StoreU(hn::Mul(high, factor), Words(), to + 8);
#endif
}

#undef HEDDLE_HAS_WIDE_WORDS

HWY_INLINE float sum_of(PartVec part) { return hn::GetLane(hn::SumOfLanes(Parts(), part)); }

// ---- second operand q8_0 or q8_1 ---------------------------------------------------------------

/// Adds 32 elements of a row and the block of a column that lies against them. `part` collects the
/// products, `rest` what belongs to the format's minimum.
template <class Format>
HWY_INLINE PartVec add_simple(const std::byte* block, int group, CodeVec low, CodeVec high,
                              const std::byte* y, PartVec part, float& rest) {
    using Other = typename Format::Other;
    const std::byte* codes = y + offsetof(Other, qs);
    const float d = read_half(y);
    const auto of_low = multiply_add(low, codes, hn::Zero(Sums()));
    if constexpr (Format::kHasTwoScales) {
        const auto of_high = multiply_add(high, codes + 16, hn::Zero(Sums()));
        const float low_scale = Format::scale(block, 2 * group) * d;
        const float high_scale = Format::scale(block, 2 * group + 1) * d;
        part = hn::MulAdd(hn::ConvertTo(Parts(), of_low), hn::Set(Parts(), low_scale), part);
        return hn::MulAdd(hn::ConvertTo(Parts(), of_high), hn::Set(Parts(), high_scale), part);
    } else {
        const auto sum = multiply_add(high, codes + 16, of_low);
        if constexpr (Format::kHasMinimum) {
            rest += Format::minimum(block) * read_half(y + offsetof(block_q8_1, s));
        }
        const auto scale = hn::Set(Parts(), Format::scale(block, group) * d);
        return hn::MulAdd(hn::ConvertTo(Parts(), sum), scale, part);
    }
}

template <class Format, int kColumns>
void dot_simple_blocks(std::int64_t n, const void* x, const void* const* y, float* out) {
    auto part0 = hn::Zero(Parts()), part1 = part0, part2 = part0, part3 = part0;
    float rest0 = 0, rest1 = 0, rest2 = 0, rest3 = 0;
    const auto* block = static_cast<const std::byte*>(x);
    const auto* const* column = reinterpret_cast<const std::byte* const*>(y);
    const std::byte* column0 = column[0];
    const std::byte* column1 = kColumns == 4 ? column[kColumns - 3] : column0;
    const std::byte* column2 = kColumns == 4 ? column[kColumns - 2] : column0;
    const std::byte* column3 = kColumns == 4 ? column[kColumns - 1] : column0;
    std::size_t at = 0;
    for (std::int64_t i = 0; i < n;
         i += Format::kElements, block += sizeof(typename Format::Block)) {
        for (int g = 0; g < Format::kElements / 32; ++g, at += sizeof(typename Format::Other)) {
            auto low = hn::Zero(Codes()), high = low;
            Format::unpack(block, g, low, high);
            part0 = add_simple<Format>(block, g, low, high, column0 + at, part0, rest0);
            if constexpr (kColumns == 4) {
                part1 = add_simple<Format>(block, g, low, high, column1 + at, part1, rest1);
                part2 = add_simple<Format>(block, g, low, high, column2 + at, part2, rest2);
                part3 = add_simple<Format>(block, g, low, high, column3 + at, part3, rest3);
            }
        }
    }
    out[0] = sum_of(part0) + rest0;
    if constexpr (kColumns == 4) {
        out[1] = sum_of(part1) + rest1;
        out[2] = sum_of(part2) + rest2;
        out[3] = sum_of(part3) + rest3;
    }
}

// ---- second operand q8_K -----------------------------------------------------------------------

/// The scales of a super-block.
struct SuperScales {
    float d = 0;                       ///< unit of the scales
    float dmin = 0;                    ///< unit of the minima
    HWY_ALIGN std::int8_t scales[16];  ///< of sixteen elements each
    HWY_ALIGN std::int8_t minima[16];  ///< for formats that have them
};

/// Scales and minima that count for 32 elements each: the bytes of two words, each twice.
HWY_INLINE void put_twice(std::uint64_t scales, std::int8_t (&to)[16]) {
    const auto bytes = hn::BitCast(Codes(), hn::Set(hn::FixedTag<std::uint64_t, 2>(), scales));
    hn::Store(hn::InterleaveLower(Codes(), bytes, bytes), Codes(), to);
}

/// What is left of a super-block once it is unpacked.
struct SuperBlock {
    HWY_ALIGN std::int16_t codes[QK_K];        ///< times the integer scales
    HWY_ALIGN std::int16_t minima[QK_K / 16];  ///< for formats that have them
    float d;                                   ///< unit of the codes
    float dmin;                                ///< unit of the minima

    /// Sixteen codes, number `group` of the block.
    HWY_INLINE void put(int group, CodeVec values, int scale) {
        put_scaled(values, scale, codes + 16 * group);
    }
    HWY_INLINE void put_minima(CodeVec values) { put_scaled(values, 1, minima); }
};

/// Hands a whole super-block on, sixteen codes at a time with the whole number that is their scale.
template <class Format, class Unpacked>
HWY_INLINE void unpack_super(const Format& format, const std::byte* from, Unpacked& to) {
    SuperScales scales;
    format.scales(from, scales);
    to.d = scales.d;
    to.dmin = scales.dmin;
    if constexpr (Format::kHasMinima) to.put_minima(hn::Load(Codes(), scales.minima));
    for (int part = 0; part < Format::kParts; ++part) {
        format.codes(from, part, [&](int slot, auto codes) HWY_ATTR {
            const int group = Format::group(part, slot);
            to.put(group, codes, scales.scales[group]);
        });
    }
}

/// sum + the products of as many words as fit into a vector.
HWY_INLINE SumVec multiply_words(const std::int16_t* a, hn::Vec<Words> b, SumVec sum,
                                 SumVec& rest) {
    return hn::ReorderWidenMulAccumulate(Sums(), hn::Load(Words(), a), b, sum, rest);
}

/// Adds a super-block of a row and the block of a column that lies against it.
template <bool kHasMinima>
HWY_INLINE PartVec add_super(const SuperBlock& block, const std::byte* y, PartVec part) {
    // Words are read as wide as they were written: wider reads would have to wait for the writes.
    const hn::Rebind<std::int8_t, Words> bytes;
    const auto* codes = reinterpret_cast<const std::int8_t*>(y + offsetof(block_q8_K, qs));
    auto sum0 = hn::Zero(Sums()), sum1 = hn::Zero(Sums());
    for (std::size_t i = 0; i < QK_K; i += hn::Lanes(Words())) {
        const auto other = hn::PromoteTo(Words(), hn::LoadU(bytes, codes + i));
        sum0 = multiply_words(block.codes + i, other, sum0, sum1);
    }
    const float d = read<float>(y + offsetof(block_q8_K, d));
    const auto sum = hn::ConvertTo(Parts(), hn::Add(sum0, sum1));
    part = hn::MulAdd(sum, hn::Set(Parts(), block.d * d), part);
    if constexpr (kHasMinima) {
        const auto* code_sums = y + offsetof(block_q8_K, bsums);
        auto below0 = hn::Zero(Sums()), below1 = below0;
        for (std::size_t g = 0; g < QK_K / 16; g += hn::Lanes(Words())) {
            const auto other =
                hn::LoadU(Words(), reinterpret_cast<const std::int16_t*>(code_sums + 2 * g));
            below0 = multiply_words(block.minima + g, other, below0, below1);
        }
        const auto below = hn::ConvertTo(Parts(), hn::Add(below0, below1));
        part = hn::NegMulAdd(below, hn::Set(Parts(), block.dmin * d), part);
    }
    return part;
}

template <class Format, int kColumns>
void dot_super_blocks(std::int64_t n, const void* x, const void* const* y, float* out) {
    constexpr bool kMinima = Format::kHasMinima;
    auto part0 = hn::Zero(Parts()), part1 = part0, part2 = part0, part3 = part0;
    const auto* row = static_cast<const std::byte*>(x);
    const auto* const* column = reinterpret_cast<const std::byte* const*>(y);
    std::size_t at = 0;
    const Format format;
    SuperBlock block;
    for (std::int64_t i = 0; i < n;
         i += QK_K, row += sizeof(typename Format::Block), at += sizeof(block_q8_K)) {
        unpack_super(format, row, block);
        part0 = add_super<kMinima>(block, column[0] + at, part0);
        if constexpr (kColumns == 4) {
            part1 = add_super<kMinima>(block, column[1] + at, part1);
            part2 = add_super<kMinima>(block, column[2] + at, part2);
            part3 = add_super<kMinima>(block, column[3] + at, part3);
        }
    }
    out[0] = sum_of(part0);
    if constexpr (kColumns == 4) {
        out[1] = sum_of(part1);
        out[2] = sum_of(part2);
        out[3] = sum_of(part3);
    }
}

/// A row of super-blocks without minima as f32.
template <class Format>
void decode_super(const void* blocks, float* values, std::int64_t n) {
    static_assert(!Format::kHasMinima);
    const auto* from = static_cast<const std::byte*>(blocks);
    const hn::ScalableTag<float> floats;
    const hn::Rebind<std::int32_t, decltype(floats)> words;
    const hn::Rebind<std::int16_t, decltype(floats)> codes;
    const Format format;
    SuperBlock block;
    for (std::int64_t i = 0; i < n; i += QK_K, from += sizeof(typename Format::Block)) {
        unpack_super(format, from, block);
        const auto d = hn::Set(floats, block.d);
        for (std::size_t j = 0; j < QK_K; j += hn::Lanes(floats)) {
            const auto value = hn::PromoteTo(words, hn::LoadU(codes, block.codes + j));
            hn::StoreU(hn::Mul(hn::ConvertTo(floats, value), d), floats, values + i + j);
        }
    }
}

// ---- any number of columns ---------------------------------------------------------------------

template <class Format>
void dot_simple_columns(std::int64_t n, const void* x, const void* const* y, float* out,
                        int columns) {
    if (columns == 4) return dot_simple_blocks<Format, 4>(n, x, y, out);
    for (int c = 0; c < columns; ++c) dot_simple_blocks<Format, 1>(n, x, y + c, out + c);
}

template <class Format>
void dot_super_columns(std::int64_t n, const void* x, const void* const* y, float* out,
                       int columns) {
    if (columns == 4) return dot_super_blocks<Format, 4>(n, x, y, out);
    for (int c = 0; c < columns; ++c) dot_super_blocks<Format, 1>(n, x, y + c, out + c);
}

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
