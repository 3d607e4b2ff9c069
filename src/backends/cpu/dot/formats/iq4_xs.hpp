// iq4_xs: nibbles that name the levels of iq4_nl, a scale of six bits for 32 elements. Included
// once per instruction set, inside a file that is compiled by foreach_target.h.
#if defined(HEDDLE_CPU_DOT_FORMATS_IQ4_XS_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_DOT_FORMATS_IQ4_XS_HPP
#undef HEDDLE_CPU_DOT_FORMATS_IQ4_XS_HPP
#else
#define HEDDLE_CPU_DOT_FORMATS_IQ4_XS_HPP
#endif

#include "backends/cpu/dot/formats/super_block.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

template <>
struct BlockFormat<GGML_TYPE_IQ4_XS> : KBlock<block_iq4_xs, 32, 127, 240>,
                                       Decoding<BlockFormat<GGML_TYPE_IQ4_XS> > {
    static_assert(kNonlinearLevels[0] == -kZeroPoint);
    static_assert(kNonlinearLevels[15] == kMostCode - kZeroPoint);
    static constexpr int kLoads = 1;
    static constexpr std::size_t load_at(int part, int) {
        return sixteen_at(offsetof(Block, qs), part);
    }
    static constexpr int kParts = 8, kSlots = 2;
    static constexpr int slots(int) { return kSlots; }
    static constexpr int group(int part, int slot) { return 2 * part + slot; }

    /// Eight scales to a word, each more by `kScaleZero`: nibbles, and pairs of bits above them.
    /// All are spread over bytes at once, by halving distances.
    static constexpr int kScaleZero = 32;
    static HWY_INLINE std::uint64_t scale_codes(const std::byte* from) {
        std::uint64_t four = read<std::uint32_t>(from + offsetof(Block, scales_l));
        std::uint64_t two = read<std::uint16_t>(from + offsetof(Block, scales_h));
        four = (four | four << 16) & 0x0000ffff0000ffff;
        four = (four | four << 8) & 0x00ff00ff00ff00ff;
        four = (four | four << 4) & 0x0f0f0f0f0f0f0f0f;
        two = (two | two << 24) & 0x000000ff000000ff;
        two = (two | two << 12) & 0x000f000f000f000f;
        two = (two | two << 6) & 0x0303030303030303;
        return four | two << 4;
    }

    static HWY_INLINE void scales(const std::byte* from, SuperScales& to) {
        to.d = read_half(from + offsetof(Block, d));
        put_twice(less_each(scale_codes(from), kScaleZero), to.scales);
    }

    template <class Put, class V>
    static HWY_INLINE void decode(int, Put put, V bytes) {
        put(0, look_up(kNonlinearLevels, low_nibbles(bytes)));
        put(1, look_up(kNonlinearLevels, high_nibbles(bytes)));
    }

#if HEDDLE_HAS_BYTE_PRODUCTS
    struct Gemv : KGemv<Facts> {
        static constexpr int element(int place) { return element_of_nibbles(place, 16); }

        static HWY_INLINE SixteenWords put_scales(const std::byte* from, std::int16_t* to) {
            const auto codes = as_codes(word_bytes(scale_codes(from), 0));
            return stored(SixteenWords(hn::Sub(codes, hn::Set(Codes(), kScaleZero))), to);
        }

        template <int kVector>
        static HWY_INLINE hn::Vec<CodeLanes> codes(const std::byte* from) {
            const auto names = nibble_lanes<kVector>(from + offsetof(Block, qs));
            return look_up_lanes(kNonlinearLevels, names);
        }
    };
#endif
};

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
