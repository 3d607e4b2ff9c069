// mxfp4 and nvfp4: nibbles that name levels of four-bit floats. mxfp4 has a power of two for 32
// elements, nvfp4 a float of eight bits for sixteen. Included once per instruction set, inside a
// file that is compiled by foreach_target.h.
#if defined(HEDDLE_CPU_DOT_FORMATS_FP4_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_DOT_FORMATS_FP4_HPP
#undef HEDDLE_CPU_DOT_FORMATS_FP4_HPP
#else
#define HEDDLE_CPU_DOT_FORMATS_FP4_HPP
#endif

#include "backends/cpu/dot/formats/simple_block.hpp"
#include "quant/small_floats.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

/// The zero point and largest code of `kFp4Levels`.
constexpr int kFp4Zero = 12, kFp4Most = 24;

#if HEDDLE_HAS_BYTE_PRODUCTS
/// `kFp4Levels` raised by the zero point.
struct RaisedFp4 {
    alignas(16) std::uint8_t levels[16] = {};
    constexpr RaisedFp4() {
        for (int i = 0; i < 16; ++i) {
            levels[i] = static_cast<std::uint8_t>(kFp4Levels[i] + kFp4Zero);
        }
    }
};

/// Of low and high nibbles.
HWY_INLINE ByteHalves raised_fp4(hn::Vec<ByteLanes> bytes) {
    static constexpr RaisedFp4 kRaised;
    const auto table = hn::LoadDup128(ByteLanes(), kRaised.levels);
    return {hn::TableLookupBytes(table, hn::And(bytes, hn::Set(ByteLanes(), 15))),
            hn::TableLookupBytes(table, hn::ShiftRight<4>(bytes))};
}
#endif

/// Half of two to the power of e - 127, which is quant::e8m0_to_f32_half. The two smallest are
/// subnormal. Exponents stand in words of 32 bits.
template <class V>
HWY_INLINE auto half_powers(V exponents) {
    const hn::DFromV<V> words;
    const auto one = hn::Set(words, 1);
    const auto normal = hn::ShiftLeft<23>(hn::Sub(exponents, one));
    const auto smallest = hn::ShiftLeft<21>(hn::Add(exponents, one));
    const auto is_normal = hn::Gt(exponents, one);
    return hn::BitCast(hn::Rebind<float, hn::DFromV<V> >(),
                       hn::IfThenElse(is_normal, normal, smallest));
}

template <>
struct BlockFormat<GGML_TYPE_MXFP4>
    : SimpleBlock<block_mxfp4, QK_MXFP4, kFp4Zero, kFp4Most>,
      FromSixteens<BlockFormat<GGML_TYPE_MXFP4>, offsetof(block_mxfp4, qs), 1> {
    static HWY_INLINE float scale(const std::byte* block, int) {
        return quant::e8m0_to_f32_half(read<std::uint8_t>(block + offsetof(Block, e)));
    }
    static HWY_INLINE float stored_scale(const std::byte* block, int) { return scale(block, 0); }

    template <class B, class V>
    static HWY_INLINE void decode(V& low, V& high, B bytes) {
        unpack_levels(kFp4Levels, bytes, low, high);
    }

#if HEDDLE_HAS_BYTE_PRODUCTS
    struct Gemv : SimpleGemv<Facts> {
        static HWY_INLINE ByteHalves codes(const std::byte* from) {
            return raised_fp4(gather<Block>(from + offsetof(Block, qs)));
        }

        static HWY_INLINE hn::Vec<Quad> scales(const std::byte* from) {
            const auto bytes = gather_numbers<sizeof(Block), std::uint8_t, kGroupBlocks>(
                from + offsetof(Block, e));
            const auto four = hn::BitCast(
                hn::FixedTag<std::uint8_t, 4>(),
                hn::Set(hn::FixedTag<std::uint32_t, 1>(), static_cast<std::uint32_t>(bytes)));
            return half_powers(hn::PromoteTo(hn::FixedTag<std::int32_t, 4>(), four));
        }
    };
#endif

#if HEDDLE_HAS_REPACK
    template <bool kIsSigned>
    struct Repacked : SimpleRepacked<Facts, kIsSigned> {
        template <class Sink>
        static HWY_INLINE void unpack(const Place& at, Sink& sink) {
            put_levels(kFp4Levels, Repacked::kOffset, at, sink);
            sink.end(0, half_powers(at.unit_bytes()));
        }
    };
#endif
};

template <>
struct BlockFormat<GGML_TYPE_NVFP4> : SimpleBlock<block_nvfp4, QK_NVFP4, kFp4Zero, kFp4Most> {
    static constexpr bool kHasTwoScales = true;

    static HWY_INLINE float scale(const std::byte* block, int sixteen) {
        return quant::ue4m3_to_f32_half(read<std::uint8_t>(block + offsetof(Block, d) + sixteen));
    }
    static HWY_INLINE float stored_scale(const std::byte* block, int sixteen) {
        return scale(block, sixteen);
    }

    /// Eight bytes hold sixteen elements, j and j + 8 together.
    template <class Source, class V>
    static HWY_INLINE void unpack(const Source& block, int group, V& low, V& high) {
        const auto bytes = load_bytes(block + offsetof(Block, qs) + 16 * group);
        V first, second;
        unpack_levels(kFp4Levels, bytes, first, second);
        const hn::Repartition<std::uint64_t, hn::DFromV<V> > eights;
        const auto one = hn::BitCast(eights, first), other = hn::BitCast(eights, second);
        low = hn::BitCast(hn::DFromV<V>(), hn::InterleaveLower(eights, one, other));
        high = hn::BitCast(hn::DFromV<V>(), hn::InterleaveUpper(eights, one, other));
    }

#if HEDDLE_HAS_BYTE_PRODUCTS
    /// Two scales for 32 elements; the kernel lays the column out as elements lie here.
    struct Gemv : SimpleGemv<Facts> {
        static constexpr int kScales = 8;

        /// Of a block.
        static HWY_INLINE hn::Vec<Quad> scales(const std::byte* from) {
            const hn::FixedTag<std::uint8_t, 4> bytes;
            const hn::FixedTag<std::uint16_t, 4> words;
            const auto codes =
                hn::LoadU(bytes, reinterpret_cast<const std::uint8_t*>(from + offsetof(Block, d)));
            const auto bits = hn::And(hn::PromoteTo(words, codes), hn::Set(words, 255));
            const auto valid = hn::IfThenZeroElse(hn::Eq(bits, hn::Set(words, 0x7f)), bits);
            // The exponent of a half is one bit longer, and 8 more; half the value is asked for.
            const auto halves = hn::ShiftLeft<7>(hn::And(valid, hn::Set(words, 0x7f)));
            return hn::Mul(
                hn::PromoteTo(Quad(), hn::BitCast(hn::FixedTag<hwy::float16_t, 4>(), halves)),
                hn::Set(Quad(), 128.0f));
        }

        template <int kFirst>
        static HWY_INLINE ByteHalves codes(const std::byte* from) {
            return raised_fp4(bytes<kFirst>(from + offsetof(Block, qs)));
        }

    private:
        template <int kFirst>
        static HWY_INLINE hn::Vec<ByteLanes> bytes(const std::byte* from) {
#if HWY_MAX_BYTES >= 64
            const hn::FixedTag<std::uint8_t, 32> half;
            const auto* at = reinterpret_cast<const std::uint8_t*>(from);
            return hn::Combine(ByteLanes(), hn::LoadU(half, at + sizeof(Block)),
                               hn::LoadU(half, at));
#else
            return load_lanes(from + kFirst / 2 * sizeof(Block) + kFirst % 2 * 16);
#endif
        }
    };
#endif
};

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
