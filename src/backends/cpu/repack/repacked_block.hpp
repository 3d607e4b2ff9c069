// Blocks of a micro-panel of repacked rows, as formats read them: a vector has one lane per row.
// Included once per instruction set, inside a file that is compiled by foreach_target.h.
#if defined(HEDDLE_CPU_REPACK_REPACKED_BLOCK_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_REPACK_REPACKED_BLOCK_HPP
#undef HEDDLE_CPU_REPACK_REPACKED_BLOCK_HPP
#else
#define HEDDLE_CPU_REPACK_REPACKED_BLOCK_HPP
#endif

#include <array>
#include <cstddef>
#include <cstdint>

#include "backends/cpu/dot/lanes.hpp"
#include "backends/cpu/repack/layout.hpp"
#include "simd/byte_products.hpp"
#include "simd/unrolled.hpp"

#undef HEDDLE_HAS_REPACK
#if HEDDLE_HAS_BYTE_PRODUCTS && (!HWY_ARCH_X86 || HWY_TARGET <= HWY_AVX2)
#define HEDDLE_HAS_REPACK 1
#else
#define HEDDLE_HAS_REPACK 0
#endif

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if HEDDLE_HAS_REPACK

namespace hn = hwy::HWY_NAMESPACE;

using ByteVec = hn::Vec<ByteLanes>;
using RowLanes = hn::ScalableTag<float>;
using RowVec = hn::Vec<RowLanes>;
using RowWords = hn::Vec<WordLanes>;

/// A block of a micro-panel, for as many rows as a vector has lanes. Fields are named by the bytes
/// of a row that come before them; that of `Format::kLast` bytes, which changes its place, is in
/// `units`.
struct Place {
    const std::byte* block;
    const std::byte* units;  ///< of scales
    int row;

    template <class Format>
    static HWY_INLINE Place of(const std::byte* from, std::int64_t number, int row) {
        // Formats without such a field begin with the units of their scales.
        if constexpr (Format::kLast == 0) return {from, from, row};
        constexpr std::int64_t kSize = sizeof(typename Format::Block) - Format::kLast;
        if (number % 2 != 0) return {from + Format::kLast * kRepackRows, from, row};
        return {from, from + kSize * kRepackRows, row};
    }

    HWY_INLINE ByteVec words(int field, int i) const {
        const std::byte* from = block + field * kRepackRows + 4 * (kRepackRows * i + row);
        return hn::LoadU(ByteLanes(), reinterpret_cast<const std::uint8_t*>(from));
    }
    HWY_INLINE RowVec unit_halves(int i) const {
        return load_f16(RowLanes(), units + 2 * (kRepackRows * i + row));
    }
    HWY_INLINE RowWords unit_bytes() const {
        const hn::Rebind<std::uint8_t, WordLanes> lanes;
        const auto* from = reinterpret_cast<const std::uint8_t*>(units + row);
        return hn::PromoteTo(WordLanes(), hn::LoadU(lanes, from));
    }
    /// Bytes as whole numbers.
    template <class Byte>
    HWY_INLINE RowWords bytes(int field, int i) const {
        const hn::Rebind<Byte, WordLanes> lanes;
        const std::byte* from = block + field * kRepackRows + kRepackRows * i + row;
        return hn::PromoteTo(WordLanes(), hn::LoadU(lanes, reinterpret_cast<const Byte*>(from)));
    }
};

/// Bits `kFirst` and up of each byte, as many as `mask` has.
template <int kFirst>
HWY_INLINE ByteVec bits_of(ByteVec bytes, std::uint8_t mask) {
    const hn::ScalableTag<std::uint16_t> pairs;
    const auto moved = hn::ShiftRight<kFirst>(hn::BitCast(pairs, bytes));
    return hn::And(hn::BitCast(ByteLanes(), moved), hn::Set(ByteLanes(), mask));
}

HWY_INLINE RowVec to_floats(RowWords words) { return hn::ConvertTo(RowLanes(), words); }

#if HWY_ARCH_X86 && HWY_TARGET == HWY_AVX2
using RowPairs = hn::Vec<hn::ScalableTag<std::int16_t> >;

/// A byte of each word as halves of it: byte `kByte` as the first, and as the second too if
/// `kTwice`.
template <int kByte, bool kTwice>
HWY_INLINE RowPairs spread_byte(RowWords words) {
    constexpr auto kPlaces = [] {
        std::array<std::uint8_t, 16> places{};
        places.fill(0x80);  // zero
        for (std::uint8_t i = 0; i < 16; i += kTwice ? 2 : 4) {
            places[i] = static_cast<std::uint8_t>(i / 4 * 4 + kByte);
        }
        return places;
    };
    HWY_ALIGN static constexpr std::array<std::uint8_t, 16> kOrder = kPlaces();
    const auto order = hn::LoadDup128(ByteLanes(), kOrder.data());
    return hn::BitCast(hn::ScalableTag<std::int16_t>(),
                       hn::TableLookupBytesOr0(hn::BitCast(ByteLanes(), words), order));
}
#endif

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
