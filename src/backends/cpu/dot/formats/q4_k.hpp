// q4_K: nibbles, a scale and a minimum of six bits for 32 elements. Included once per instruction
// set, inside a file that is compiled by foreach_target.h.
#if defined(HEDDLE_CPU_DOT_FORMATS_Q4_K_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_DOT_FORMATS_Q4_K_HPP
#undef HEDDLE_CPU_DOT_FORMATS_Q4_K_HPP
#else
#define HEDDLE_CPU_DOT_FORMATS_Q4_K_HPP
#endif

#include "backends/cpu/dot/formats/super_block.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

/// The scales and minima of q4_K and q5_K, four to a word each, from the three words that hold
/// them: of one block, or in vectors of many. The first four of each are the low six bits of words
/// 0 and 1; the others have their low nibbles in word 2 and their high pairs of bits on top of the
/// first four.
template <class W>
struct SixBitScales {
    W scales[2], minima[2];

    HWY_INLINE SixBitScales(W a, W b, W c)
        : scales{masked(a, kSix), both_of(masked(c, kFour), masked(moved_right<2>(a), kTop))},
          minima{masked(b, kSix),
                 both_of(masked(moved_right<4>(c), kFour), masked(moved_right<2>(b), kTop))} {}

private:
    static constexpr std::uint32_t kSix = 0x3f3f3f3f, kFour = 0x0f0f0f0f, kTop = 0x30303030;
};

/// Both formats' scales, but for repacked rows.
template <class Facts>
struct SixBitScaled : Facts {
    using Block = typename Facts::Block;

    /// Of a block: eight scales, and eight minima, to a word.
    struct ScaleCodes {
        std::uint64_t scales, minima;
    };
    static HWY_INLINE ScaleCodes scale_codes(const std::byte* block) {
        const std::byte* from = block + offsetof(Block, scales);
        const SixBitScales<std::uint32_t> six(read<std::uint32_t>(from),
                                              read<std::uint32_t>(from + 4),
                                              read<std::uint32_t>(from + 8));
        return {std::uint64_t{six.scales[1]} << 32 | six.scales[0],
                std::uint64_t{six.minima[1]} << 32 | six.minima[0]};
    }

    static HWY_INLINE void scales(const std::byte* from, SuperScales& to) {
        to.d = read_half(from + offsetof(Block, d));
        to.dmin = read_half(from + offsetof(Block, dmin));
        const ScaleCodes codes = scale_codes(from);
        put_twice(codes.scales, to.scales);
        put_twice(codes.minima, to.minima);
    }

    template <class Rows, class Words>
    static HWY_INLINE void row_scales(Rows rows, Words& to) {
        static_assert(offsetof(Block, d) == 0 && offsetof(Block, scales) == 4);
        hn::Vec<ScaleLanes> words[4];
        load_transposed(ScaleLanes(), rows, words);
        const SixBitScales six(words[1], words[2], words[3]);
        for (int i = 0; i < 2; ++i) {
            to.scales[i] = six.scales[i];
            to.minima[i] = six.minima[i];
        }
        to.d = load_halves(rows + offsetof(Block, d));
        to.dmin = load_halves(rows + offsetof(Block, dmin));
    }

#if HEDDLE_HAS_BYTE_PRODUCTS
    struct Gemv : KGemv<Facts> {
        static constexpr int element(int place) { return element_of_nibbles(place, 32); }

        static HWY_INLINE SixteenWords put_scales(const std::byte* from, std::int16_t* to) {
            const ScaleCodes codes = scale_codes(from);
            return stored(SixteenWords(word_bytes(codes.scales, codes.minima)), to);
        }
    };
#endif
};

template <>
struct BlockFormat<GGML_TYPE_Q4_K> : SixBitScaled<KBlock<block_q4_K, 32, 0, 15> >,
                                     NibbleParts,
                                     Decoding<BlockFormat<GGML_TYPE_Q4_K> > {
    static constexpr int kLoads = 1;
    static constexpr std::size_t load_at(int part, int) {
        return sixteen_at(offsetof(Block, qs), part);
    }

    template <class Put, class V>
    static HWY_INLINE void decode(int, Put put, V bytes) {
        put(0, low_nibbles(bytes));
        put(1, high_nibbles(bytes));
    }

#if HEDDLE_HAS_BYTE_PRODUCTS
    struct Gemv : SixBitScaled<Facts>::Gemv {
        template <int kVector>
        static HWY_INLINE hn::Vec<ByteLanes> codes(const std::byte* from) {
            return nibble_lanes<kVector>(from + offsetof(Block, qs));
        }
    };
#endif

#if HEDDLE_HAS_REPACK
    struct RepackedScales {
        SixBitScales<RowWords> six;
        RowVec d, dmin;

        HWY_INLINE RepackedScales(const Place& at, int field)
            : six(word(at, field, 0), word(at, field, 1), word(at, field, 2)),
              d(at.unit_halves(0)),
              dmin(at.unit_halves(1)) {}

        template <int kNumber>
        HWY_INLINE RowVec scale() const {
            return hn::Mul(d, to_floats(byte<kNumber % 4>(six.scales[kNumber / 4])));
        }
        template <int kNumber>
        HWY_INLINE RowVec minimum() const {
            return hn::Mul(dmin, to_floats(byte<kNumber % 4>(six.minima[kNumber / 4])));
        }

#if HWY_ARCH_X86 && HWY_TARGET == HWY_AVX2
        template <int kNumber>
        HWY_INLINE RowPairs scale_pairs() const {
            return spread_byte<kNumber % 4, true>(six.scales[kNumber / 4]);
        }
        template <int kNumber>
        HWY_INLINE RowPairs minimum_pairs() const {
            return spread_byte<kNumber % 4, false>(six.minima[kNumber / 4]);
        }
#endif

    private:
        static HWY_INLINE RowWords word(const Place& at, int field, int i) {
            return hn::BitCast(WordLanes(), at.words(field, i));
        }
        template <int kByte>
        static HWY_INLINE RowWords byte(RowWords words) {
            return hn::And(hn::ShiftRight<8 * kByte>(words), hn::Set(WordLanes(), 255));
        }
    };

    template <bool>
    struct Repacked : KRepacked<Facts> {
        static constexpr int kScales = 4, kCodes = 16;  ///< where fields are

        /// 32 bytes hold elements j and j + 32.
        template <class Sink>
        static HWY_INLINE void unpack(const Place& at, Sink& sink) {
            const RepackedScales scales(at, kScales);
            unrolled<8>([&](auto group) HWY_ATTR {
                HWY_UNROLL(8)
                for (int u = 0; u < 8; ++u) {
                    const auto bytes = at.words(kCodes, group / 2 * 8 + u);
                    sink.put(8 * group + u, bits_of<group % 2 * 4>(bytes, 15));
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
