#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/dot/k_code_strips.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include "backends/cpu/dot/code_strips.hpp"
#include "backends/cpu/dot/k_formats.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if !HEDDLE_HAS_CODE_STRIPS

StripKernel k_code_strips(Type) { return {}; }

#else
namespace {

/// A format whose codes are from -kLeast to kMost, with a scale for each of `kCount` parts of 32
/// elements.
template <class Super, int kCount, int kLeast, int kMost>
struct SuperCodes {
    using Other = block_q8_K;
    static constexpr int kGroups = kCount;
    static constexpr bool kHasMinima = Super::kHasMinima;
    static constexpr int kOffset = kLeast;
    static constexpr int kMostCode = kLeast + kMost;

    /// What the format writes to.
    struct Unpacked {
        CodeRow& row;
        float d = 0, dmin = 0;

        HWY_INLINE void put(int group, CodeVec codes, int scale) {
            const auto bytes = hn::Add(hn::BitCast(Bytes(), codes), hn::Set(Bytes(), kOffset));
            hn::Store(bytes, Bytes(), row.codes + 16 * group);
            row.scales[group * kGroups / 2] = d * static_cast<float>(scale);
        }
        HWY_INLINE void put_minima(CodeVec values) {
            HWY_ALIGN std::int8_t minima[16];
            hn::Store(values, Codes(), minima);
            for (int g = 0; g < 8 * kGroups; ++g) {
                row.minima[g] = dmin * static_cast<float>(minima[g * 2 / kGroups]);
            }
        }
    };

    static HWY_INLINE void unpack(const std::byte* block, std::int64_t, CodeRow& to) {
        Unpacked unpacked{to};
        Super().unpack(block, unpacked);
    }
};

constexpr CodeStripEntry kEntries[] = {
    {GGML_TYPE_Q2_K, code_strip_kernel<SuperCodes<Q2K, 2, 0, 3> >},
    {GGML_TYPE_Q3_K, code_strip_kernel<SuperCodes<Q3K, 2, 4, 3> >},
    {GGML_TYPE_Q4_K, code_strip_kernel<SuperCodes<Q4K, 1, 0, 15> >},
    {GGML_TYPE_Q5_K, code_strip_kernel<SuperCodes<Q5K, 1, 0, 31> >},
    {GGML_TYPE_Q6_K, code_strip_kernel<SuperCodes<Q6K, 2, 32, 31> >},
    {GGML_TYPE_IQ4_XS, code_strip_kernel<SuperCodes<Iq4Xs, 1, 127, 113> >},
    {GGML_TYPE_TQ2_0, code_strip_kernel<SuperCodes<Tq2, 1, 1, 2> >},
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
