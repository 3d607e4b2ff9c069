// tq1_0: -1, 0 and 1, five to a byte, and one scale. Included once per instruction set, inside a
// file that is compiled by foreach_target.h.
#if defined(HEDDLE_CPU_DOT_FORMATS_TQ1_0_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_DOT_FORMATS_TQ1_0_HPP
#undef HEDDLE_CPU_DOT_FORMATS_TQ1_0_HPP
#else
#define HEDDLE_CPU_DOT_FORMATS_TQ1_0_HPP
#endif

#include "backends/cpu/dot/formats/super_block.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

/// Parts 0 and 1 are 16 bytes each with every other sixteen of the first 160 elements, part 2 has
/// the next 80, part 3 the sixteen elements of the last four bytes.
///
/// A byte is a fraction of 256 in base three. Its digits come above the point one by one when it is
/// multiplied by three again and again.
template <>
struct BlockFormat<GGML_TYPE_TQ1_0> : KBlock<block_tq1_0, QK_K, 1, 2> {
    static constexpr int kParts = 4, kSlots = 5;
    static constexpr int slots(int part) { return part < 3 ? kSlots : 1; }
    static constexpr int group(int part, int slot) {
        return part < 2 ? part + 2 * slot : 5 * part + slot;
    }

    static HWY_INLINE void scales(const std::byte* from, SuperScales& to) {
        to.d = read_half(from + offsetof(Block, d));
        std::memset(to.scales, 1, sizeof to.scales);
    }

    template <class Source, class Put>
    static HWY_INLINE void codes(const Source& from, int part, Put put) {
        if (part == 3) return put(0, top_trits(last_digits(from)));
        auto digits = load_bytes(from + offsetof(Block, qs) + 16 * static_cast<std::size_t>(part));
        for (int slot = 0; slot < kSlots; ++slot) {
            put(slot, top_trits(digits));
            digits = hn::Add(hn::Add(digits, digits), digits);
        }
    }

private:
    /// The digit above the point once a byte is multiplied by three, less 1.
    template <class V>
    static HWY_INLINE auto top_trits(V bytes) {
        const auto at_least = [&](int value) HWY_ATTR {
            const auto is_more = hn::Eq(hn::Max(bytes, all_bytes(bytes, value)), bytes);
            return as_codes(hn::VecFromMask(hn::DFromV<V>(), is_more));
        };
        // Lanes that compare true are -1.
        return hn::Neg(hn::Add(minus(at_least(86), -1), at_least(171)));
    }

    /// The last four bytes in lanes 0 .. 3, three times them in lanes 4 .. 7, and so on.
    template <class Source>
    static HWY_INLINE auto last_digits(const Source& from) {
        constexpr int kFirst = 10;  // of the block's last sixteen bytes
        static_assert(offsetof(Block, qh) + 16 - kFirst == sizeof(Block));
        alignas(16) static constexpr std::uint8_t kOrder[16] = {
            kFirst, kFirst + 1, kFirst + 2, kFirst + 3, kFirst, kFirst + 1, kFirst + 2, kFirst + 3,
            kFirst, kFirst + 1, kFirst + 2, kFirst + 3, kFirst, kFirst + 1, kFirst + 2, kFirst + 3};
        alignas(16) static constexpr std::uint8_t kFrom[3][16] = {
            {0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255},
            {0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255},
            {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255}};
        const auto bytes = load_bytes(from + (offsetof(Block, qh) - kFirst));
        const hn::DFromV<decltype(bytes)> d;
        auto digits = hn::TableLookupBytes(bytes, hn::LoadDup128(d, kOrder));
        for (const auto& lanes : kFrom) {
            digits = hn::Add(digits, hn::And(hn::Add(digits, digits), hn::LoadDup128(d, lanes)));
        }
        return digits;
    }

#if HEDDLE_HAS_BYTE_PRODUCTS
public:
    struct Gemv : KGemv<Facts> {
        template <int kVector>
        static HWY_INLINE hn::Vec<ByteLanes> codes(const std::byte* from) {
            const auto digits = fractions<kVector * kBytes, kBytes>(from);
            const auto is_above = [&](std::uint8_t value) HWY_ATTR {
                return hn::Min(hn::SaturatedSub(digits, hn::Set(ByteLanes(), value)),
                               hn::Set(ByteLanes(), 1));
            };
            return hn::Add(is_above(85), is_above(170));
        }

    private:
        /// Times three to the power of `kPower`.
        template <int kPower, class V>
        static HWY_INLINE V shifted(V bytes) {
            if constexpr (kPower == 0) {
                return bytes;
            } else {
                const V less = shifted<kPower - 1>(bytes);
                return hn::Add(hn::Add(less, less), less);
            }
        }

        /// Those that elements from `kFirst` on have above the point.
        template <int kFirst, int kCount>
        static HWY_INLINE auto fractions(const std::byte* from) {
            const hn::FixedTag<std::uint8_t, kCount> lanes;
            const std::byte* fives = from + offsetof(Block, qs);
            if constexpr (kCount == 32 && kFirst < 160) {
                const auto* bytes = reinterpret_cast<const std::uint8_t*>(fives);
                return shifted<kFirst / 32>(hn::LoadU(lanes, bytes));
            } else if constexpr (kCount > 16) {
                const auto low = fractions<kFirst, kCount / 2>(from);
                return hn::Combine(lanes, fractions<kFirst + kCount / 2, kCount / 2>(from), low);
            } else if constexpr (kFirst < 160) {
                return shifted<kFirst / 32>(load_bytes(fives + kFirst % 32));
            } else if constexpr (kFirst < 240) {
                return shifted<(kFirst - 160) / 16>(load_bytes(fives + 32));
            } else {
                return last_fractions(read<std::uint32_t>(from + offsetof(Block, qh)));
            }
        }

        /// Four bytes, and three, nine and 27 times each.
        static HWY_INLINE hn::Vec<Bytes> last_fractions(std::uint32_t four) {
            alignas(16) static constexpr std::uint8_t kThree[16] = {0, 0, 0, 0, 255, 255, 255, 255,
                                                                    0, 0, 0, 0, 255, 255, 255, 255};
            alignas(16) static constexpr std::uint8_t kNine[16] = {
                0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255};
            const auto one = hn::BitCast(Bytes(), hn::Set(hn::FixedTag<std::uint32_t, 4>(), four));
            const auto three = hn::Or(hn::And(shifted<1>(one), hn::Load(Bytes(), kThree)),
                                      hn::AndNot(hn::Load(Bytes(), kThree), one));
            return hn::Or(hn::And(shifted<2>(three), hn::Load(Bytes(), kNine)),
                          hn::AndNot(hn::Load(Bytes(), kNine), three));
        }
    };
#endif
};

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
