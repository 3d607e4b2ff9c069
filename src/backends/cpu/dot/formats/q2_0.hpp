// q2_0: codes of two bits, 64 elements with one scale. Included once per instruction set, inside a
// file that is compiled by foreach_target.h.
#if defined(HEDDLE_CPU_DOT_FORMATS_Q2_0_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_DOT_FORMATS_Q2_0_HPP
#undef HEDDLE_CPU_DOT_FORMATS_Q2_0_HPP
#else
#define HEDDLE_CPU_DOT_FORMATS_Q2_0_HPP
#endif

#include "backends/cpu/dot/formats/simple_block.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

template <>
struct BlockFormat<GGML_TYPE_Q2_0> : SimpleBlock<block_q2_0, QK2_0, 1, 3> {
    template <class Source, class V>
    static HWY_INLINE void unpack(const Source& block, int group, V& low, V& high) {
        const auto bytes = load_bytes(block + offsetof(Block, qs));
        low = four_bytes(bytes, 8 * group);
        high = four_bytes(bytes, 8 * group + 4);
    }

private:
    /// The codes of bytes `first` to `first` + 3.
    template <class V>
    static HWY_INLINE auto four_bytes(V bytes, int first) {
        alignas(16) static constexpr std::uint8_t kOrder[16] = {0, 0, 0, 0, 1, 1, 1, 1,
                                                                2, 2, 2, 2, 3, 3, 3, 3};
        // Bits 0, 2, 4, 6 of the lanes in turn, and those above them.
        alignas(16) static constexpr std::uint8_t kOnes[16] = {1, 4, 16, 64, 1, 4, 16, 64,
                                                               1, 4, 16, 64, 1, 4, 16, 64};
        const hn::DFromV<V> d;
        const auto order =
            hn::Add(hn::LoadDup128(d, kOrder), hn::Set(d, static_cast<std::uint8_t>(first)));
        const auto spread = hn::TableLookupBytes(bytes, order);
        const auto ones = hn::LoadDup128(d, kOnes);
        const auto twos = hn::Add(ones, ones);
        return minus(hn::Add(where_bits(spread, ones, 1), where_bits(spread, twos, 2)), kZeroPoint);
    }

#if HEDDLE_HAS_BYTE_PRODUCTS
public:
    struct Gemv : SimpleGemv<Facts> {
        static HWY_INLINE hn::Vec<Quad> scales(const std::byte* from) {
            const std::uint64_t first = read<std::uint16_t>(from + offsetof(Block, d));
            const std::uint64_t second =
                read<std::uint16_t>(from + sizeof(Block) + offsetof(Block, d));
            return four_halves((first | second << 32) * 0x10001);
        }

        template <int kFirst>
        static HWY_INLINE ByteHalves codes(const std::byte* from) {
            const auto bytes = duplicated_sixteens<kFirst>(from + offsetof(Block, qs));
            return {four_bytes(bytes, 8 * (kFirst % 2)), four_bytes(bytes, 8 * (kFirst % 2) + 4)};
        }

    private:
        /// Sixteen bytes of each block, of the two that a group has: as many as a vector of
        /// `codes<kFirst>` comes from.
        template <int kFirst>
        static HWY_INLINE hn::Vec<ByteLanes> duplicated_sixteens(const std::byte* from) {
            const auto* bytes =
                reinterpret_cast<const std::uint8_t*>(from + kFirst / 2 * sizeof(Block));
#if HWY_MAX_BYTES >= 64
            const hn::FixedTag<std::uint8_t, 32> half;
            return hn::Combine(ByteLanes(), hn::LoadDup128(half, bytes + sizeof(Block)),
                               hn::LoadDup128(half, bytes));
#else
            return hn::LoadDup128(ByteLanes(), bytes);
#endif
        }

        /// The codes of four bytes, from `first` of the bytes of each block on.
        static HWY_INLINE hn::Vec<ByteLanes> four_bytes(hn::Vec<ByteLanes> bytes, int first) {
            HWY_ALIGN static constexpr std::uint8_t kOrder[64] = {
                0, 0, 0,  0,  1,  1,  1,  1,  2,  2,  2, 2, 3,  3,  3,  3,  8,  8,  8,  8, 9, 9,
                9, 9, 10, 10, 10, 10, 11, 11, 11, 11, 0, 0, 0,  0,  1,  1,  1,  1,  2,  2, 2, 2,
                3, 3, 3,  3,  8,  8,  8,  8,  9,  9,  9, 9, 10, 10, 10, 10, 11, 11, 11, 11};
            alignas(16) static constexpr std::uint8_t kPlaces[16] = {
                3, 12, 48, 192, 3, 12, 48, 192, 3, 12, 48, 192, 3, 12, 48, 192};
            // What is in bits 0 and 1, or else in 2 and 3.
            alignas(16) static constexpr std::uint8_t kValues[16] = {0, 1, 2, 3, 1, 0, 0, 0,
                                                                     2, 0, 0, 0, 3, 0, 0, 0};
            const ByteLanes d;
            const auto order =
                hn::Add(hn::Load(d, kOrder), hn::Set(d, static_cast<std::uint8_t>(first)));
            const auto pairs =
                hn::And(hn::TableLookupBytes(bytes, order), hn::LoadDup128(d, kPlaces));
            const auto nibbles = hn::And(hn::Or(pairs, hn::ShiftRight<4>(pairs)), hn::Set(d, 15));
            return hn::TableLookupBytes(hn::LoadDup128(d, kValues), nibbles);
        }
    };
#endif
};

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
