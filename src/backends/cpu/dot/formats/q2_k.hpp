// q2_K: codes of two bits, a scale and a minimum of four bits for sixteen elements. Included once
// per instruction set, inside a file that is compiled by foreach_target.h.
#if defined(HEDDLE_CPU_DOT_FORMATS_Q2_K_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_DOT_FORMATS_Q2_K_HPP
#undef HEDDLE_CPU_DOT_FORMATS_Q2_K_HPP
#else
#define HEDDLE_CPU_DOT_FORMATS_Q2_K_HPP
#endif

#include "backends/cpu/dot/formats/super_block.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

template <>
struct BlockFormat<GGML_TYPE_Q2_K>
    : KBlock<block_q2_K, 16, 0, 3>, TwoBitParts, Decoding<BlockFormat<GGML_TYPE_Q2_K> > {
    static constexpr int kLoads = 1;
    static constexpr std::size_t load_at(int part, int) {
        return sixteen_at(offsetof(Block, qs), part);
    }

    /// A scale in the low nibble, a minimum in the high one.
    static HWY_INLINE void scales(const std::byte* from, SuperScales& to) {
        to.d = read_half(from + offsetof(Block, d));
        to.dmin = read_half(from + offsetof(Block, dmin));
        const auto both = load_bytes(from + offsetof(Block, scales));
        hn::Store(low_nibbles(both), Codes(), to.scales);
        hn::Store(high_nibbles(both), Codes(), to.minima);
    }

    template <class Rows, class Words>
    static HWY_INLINE void row_scales(Rows rows, Words& to) {
        load_transposed(ScaleLanes(), rows + offsetof(Block, scales), to.scales);
        for (int i = 0; i < 4; ++i) {
            to.minima[i] = masked(moved_right<4>(to.scales[i]), 0x0f0f0f0f);
            to.scales[i] = masked(to.scales[i], 0x0f0f0f0f);
        }
        to.d = load_halves(rows + offsetof(Block, d));
        to.dmin = load_halves(rows + offsetof(Block, dmin));
    }

    template <class Put, class V>
    static HWY_INLINE void decode(int, Put put, V bytes) {
        for_bit_pairs(bytes, [&](int pair, auto codes) HWY_ATTR { put(pair, as_codes(codes)); });
    }

#if HEDDLE_HAS_BYTE_PRODUCTS
    struct Gemv : KGemv<Facts> {
        static HWY_INLINE SixteenWords put_scales(const std::byte* from, std::int16_t* to) {
            const auto bytes = load_bytes(from + offsetof(Block, scales));
            SixteenWords(hn::And(bytes, hn::Set(Bytes(), 15))).store(to);
            return SixteenWords(hn::ShiftRight<4>(bytes));
        }

        template <int kVector>
        static HWY_INLINE hn::Vec<ByteLanes> codes(const std::byte* from) {
            return pair_planes<kVector>(from + offsetof(Block, qs));
        }
    };
#endif

#if HEDDLE_HAS_REPACK
    struct RepackedScales {
        const Place at;
        const int field;
        const RowVec d, dmin;

        HWY_INLINE RepackedScales(const Place& place, int scales)
            : at(place), field(scales), d(at.unit_halves(0)), dmin(at.unit_halves(1)) {}

        template <int kNumber>
        HWY_INLINE RowVec scale() const {
            return hn::Mul(d, to_floats(hn::And(both<kNumber>(), hn::Set(WordLanes(), 15))));
        }
        template <int kNumber>
        HWY_INLINE RowVec minimum() const {
            return hn::Mul(dmin, to_floats(hn::ShiftRight<4>(both<kNumber>())));
        }

#if HWY_ARCH_X86 && HWY_TARGET == HWY_AVX2
        template <int kNumber>
        HWY_INLINE RowPairs scale_pairs() const {
            return hn::And(spread_byte<0, true>(both<kNumber>()),
                           hn::Set(hn::ScalableTag<std::int16_t>(), 15));
        }
        template <int kNumber>
        HWY_INLINE RowPairs minimum_pairs() const {
            return hn::BitCast(hn::ScalableTag<std::int16_t>(), hn::ShiftRight<4>(both<kNumber>()));
        }
#endif

    private:
        template <int kNumber>
        HWY_INLINE RowWords both() const {
            return at.template bytes<std::uint8_t>(field, kNumber);
        }
    };

    template <bool>
    struct Repacked : KRepacked<Facts> {
        static constexpr int kScales = 4, kCodes = 20;  ///< where fields are

        /// In each half byte j holds elements j, j + 32, j + 64, j + 96.
        template <class Sink>
        static HWY_INLINE void unpack(const Place& at, Sink& sink) {
            const RepackedScales scales(at, kScales);
            unrolled<16>([&](auto group) HWY_ATTR {
                constexpr int kHalf = group / 8, kPair = group / 2 % 4, kWord = group % 2 * 4;
                HWY_UNROLL(4)
                for (int u = 0; u < 4; ++u) {
                    const auto bytes = at.words(kCodes, 8 * kHalf + kWord + u);
                    sink.put(4 * group + u, bits_of<2 * kPair>(bytes, 3));
                }
                sink.end(group, scales);
            });
        }
    };
#endif
};

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
