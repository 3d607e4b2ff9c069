#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/dot/k_code_strips.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include "backends/cpu/dot/code_strips.hpp"
#include "backends/cpu/dot/grid_formats.hpp"
#include "backends/cpu/dot/k_formats.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if !HEDDLE_HAS_CODE_STRIPS

StripKernel k_code_strips(Type) { return {}; }

#else
namespace {

/// The scales of super-blocks of all rows. Byte i of a lane of vector v belongs to group 4 * v + i;
/// a group is 16 or 32 elements.
struct ScaleWords {
    FloatVec d, dmin;
    WordVec scales[4], minima[4];
};

/// Formats whose scales are bytes that can be unpacked for all rows at a time.
template <class Super>
struct ScalesOf {
    static constexpr int kGroup = 16;

    static HWY_INLINE void load(const Super& super, StripRows rows, ScaleWords& to) {
        HWY_ALIGN float d[kCodeLanes];
        HWY_ALIGN std::int32_t words[4][kCodeLanes];
        for (std::int64_t r = 0; r < kCodeLanes; ++r) {
            SuperScales scales;
            super.scales(rows.row(r), scales);
            d[r] = scales.d;
            for (int i = 0; i < 4; ++i) std::memcpy(&words[i][r], scales.scales + 4 * i, 4);
        }
        to.d = hn::Load(FloatLanes(), d);
        for (int i = 0; i < 4; ++i) to.scales[i] = hn::Load(WordLanes(), words[i]);
    }
};

HWY_INLINE WordVec masked(WordVec words, std::int32_t mask) {
    return hn::And(words, hn::Set(WordLanes(), mask));
}

template <>
struct ScalesOf<Q2K> {
    static constexpr int kGroup = 16;

    static HWY_INLINE void load(const Q2K&, StripRows rows, ScaleWords& to) {
        load_transposed(WordLanes(), rows + offsetof(block_q2_K, scales), to.scales);
        for (int i = 0; i < 4; ++i) {
            to.minima[i] = masked(hn::ShiftRight<4>(to.scales[i]), 0x0f0f0f0f);
            to.scales[i] = masked(to.scales[i], 0x0f0f0f0f);
        }
        to.d = load_halves(rows + offsetof(block_q2_K, d));
        to.dmin = load_halves(rows + offsetof(block_q2_K, dmin));
    }
};

/// q4_K and q5_K: two halves, then twelve bytes of scales and minima of six bits.
template <class Block>
struct SixBitScales {
    static constexpr int kGroup = 32;

    template <class Super>
    static HWY_INLINE void load(const Super&, StripRows rows, ScaleWords& to) {
        static_assert(offsetof(Block, d) == 0 && offsetof(Block, scales) == 4);
        WordVec words[4];
        load_transposed(WordLanes(), rows, words);
        constexpr std::int32_t kSix = 0x3f3f3f3f, kFour = 0x0f0f0f0f, kTop = 0x30303030;
        const auto top = [](WordVec w) HWY_ATTR { return masked(hn::ShiftRight<2>(w), kTop); };
        to.scales[0] = masked(words[1], kSix);
        to.scales[1] = hn::Or(masked(words[3], kFour), top(words[1]));
        to.minima[0] = masked(words[2], kSix);
        to.minima[1] = hn::Or(masked(hn::ShiftRight<4>(words[3]), kFour), top(words[2]));
        to.d = load_halves(rows + offsetof(Block, d));
        to.dmin = load_halves(rows + offsetof(Block, dmin));
    }
};
template <>
struct ScalesOf<Q4K> : SixBitScales<block_q4_K> {};
template <>
struct ScalesOf<Q5K> : SixBitScales<block_q5_K> {};

template <>
struct ScalesOf<Q6K> {
    static constexpr int kGroup = 16;

    static HWY_INLINE void load(const Q6K&, StripRows rows, ScaleWords& to) {
        load_transposed(WordLanes(), rows + offsetof(block_q6_K, scales), to.scales);
        to.d = load_halves(rows + offsetof(block_q6_K, d));
    }
};

/// A format whose codes are from -kLeast to kMost, with a scale for each of `kCount` parts of 32
/// elements.
template <class Super, int kCount, int kLeast, int kMost>
struct SuperCodes : Super {
    using Other = block_q8_K;
    using Scale = float;
    static constexpr int kGroups = kCount;
    static constexpr int kOffset = kLeast;
    static constexpr int kMostCode = kLeast + kMost;
    static constexpr int kLoads = loads_of<Super>();

    static constexpr int parts(std::int64_t count) {
        return static_cast<int>(count / QK_K) * Super::kParts;
    }
    static constexpr std::size_t bytes(std::int64_t count) {
        return static_cast<std::size_t>(count / QK_K) * sizeof(typename Super::Block);
    }

    /// Those of the whole block.
    static constexpr bool has_scales(int part) { return part == 0; }

    template <class Place>
    HWY_INLINE void put_scales(StripRows rows, int, Place& to) const {
        constexpr int kStep = 32 / kGroups / ScalesOf<Super>::kGroup;
        ScaleWords words;
        ScalesOf<Super>::load(*this, rows, words);
        HWY_UNROLL(16)
        for (int g = 0; g < 8 * kGroups; ++g) {
            hn::StoreU(hn::Mul(words.d, byte_of(words.scales, g * kStep)), FloatLanes(),
                       to.scales(g));
            if constexpr (Super::kHasMinima) {
                hn::StoreU(hn::Mul(words.dmin, byte_of(words.minima, g * kStep)), FloatLanes(),
                           to.minima(g));
            }
        }
    }

private:
    static HWY_INLINE FloatVec byte_of(const WordVec (&words)[4], int number) {
        const auto word = hn::ShiftLeftSame(words[number / 4], 24 - number % 4 * 8);
        return hn::ConvertTo(FloatLanes(), hn::ShiftRight<24>(word));
    }
};

template <class Super, int kCount>
using GridCodes = SuperCodes<Super, kCount, Super::kMostValue, Super::kMostValue>;

constexpr CodeStripEntry kEntries[] = {
    {GGML_TYPE_Q2_K, code_strip_kernel<SuperCodes<Q2K, 2, 0, 3> >},
    {GGML_TYPE_Q3_K, code_strip_kernel<SuperCodes<Q3K, 2, 4, 3> >},
    {GGML_TYPE_Q4_K, code_strip_kernel<SuperCodes<Q4K, 1, 0, 15> >},
    {GGML_TYPE_Q5_K, code_strip_kernel<SuperCodes<Q5K, 1, 0, 31> >},
    {GGML_TYPE_Q6_K, code_strip_kernel<SuperCodes<Q6K, 2, 32, 31> >},
    {GGML_TYPE_IQ4_XS, code_strip_kernel<SuperCodes<Iq4Xs, 1, 127, 113> >},
    {GGML_TYPE_TQ1_0, code_strip_kernel<SuperCodes<Tq1, 1, 1, 1> >},
    {GGML_TYPE_TQ2_0, code_strip_kernel<SuperCodes<Tq2, 1, 1, 2> >},
    {GGML_TYPE_IQ2_XXS, code_strip_kernel<GridCodes<Iq2Xxs, 1> >},
    {GGML_TYPE_IQ2_XS, code_strip_kernel<GridCodes<Iq2Xs, 2> >},
    {GGML_TYPE_IQ2_S, code_strip_kernel<GridCodes<Iq2S, 2> >},
    {GGML_TYPE_IQ3_XXS, code_strip_kernel<GridCodes<Iq3Xxs, 1> >},
    {GGML_TYPE_IQ3_S, code_strip_kernel<GridCodes<Iq3S, 1> >},
    {GGML_TYPE_IQ1_S, code_strip_kernel<GridCodes<Iq1S, 1> >},
    {GGML_TYPE_IQ1_M, code_strip_kernel<GridCodes<Iq1M, 2> >},
};

}  // namespace

StripKernel k_code_strips(Type type) { return find_code_strips(kEntries, type); }

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(k_code_strips);

StripKernel k_code_strips_of(Type type) { return HWY_DYNAMIC_DISPATCH(k_code_strips)(type); }

}  // namespace heddle::cpu
#endif
