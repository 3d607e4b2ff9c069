#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/dot/simple_code_strips.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include "backends/cpu/dot/code_strips.hpp"
#include "backends/cpu/dot/simple_formats.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if !HEDDLE_HAS_CODE_STRIPS

StripKernel simple_code_strips(Type) { return {}; }

#else
namespace {

/// A format whose codes are from -kLeast to kMost.
template <class Simple, int kLeast, int kMost>
struct SimpleCodes {
    using Other = typename Simple::Other;
    static constexpr int kGroups = Simple::kHasTwoScales ? 2 : 1;
    static constexpr bool kHasMinima = Simple::kHasMinimum;
    static constexpr int kOffset = kLeast;
    static constexpr int kMostCode = kLeast + kMost;

    static HWY_INLINE void unpack(const std::byte* block, std::int64_t count, CodeRow& to) {
        const auto offset = hn::Set(Bytes(), kOffset);
        int number = 0;
        for (std::int64_t i = 0; i < count;
             i += Simple::kElements, block += sizeof(typename Simple::Block)) {
            for (int g = 0; g < Simple::kElements / 32; ++g, ++number) {
                auto low = hn::Zero(Codes()), high = low;
                Simple::unpack(block, g, low, high);
                std::uint8_t* codes = to.codes + 32 * number;
                hn::Store(hn::Add(hn::BitCast(Bytes(), low), offset), Bytes(), codes);
                hn::Store(hn::Add(hn::BitCast(Bytes(), high), offset), Bytes(), codes + 16);
                if constexpr (kGroups == 2) {
                    to.scales[2 * number] = Simple::scale(block, 2 * g);
                    to.scales[2 * number + 1] = Simple::scale(block, 2 * g + 1);
                } else {
                    to.scales[number] = Simple::scale(block, g);
                }
                if constexpr (kHasMinima) to.minima[number] = -Simple::minimum(block);
            }
        }
    }
};

constexpr CodeStripEntry kEntries[] = {
    {GGML_TYPE_Q1_0, code_strip_kernel<SimpleCodes<Q1_0, 1, 1> >},
    {GGML_TYPE_Q2_0, code_strip_kernel<SimpleCodes<Q2_0, 1, 2> >},
    {GGML_TYPE_Q4_0, code_strip_kernel<SimpleCodes<Q4_0, 8, 7> >},
    {GGML_TYPE_Q4_1, code_strip_kernel<SimpleCodes<Q4_1, 0, 15> >},
    {GGML_TYPE_Q5_0, code_strip_kernel<SimpleCodes<Q5_0, 16, 15> >},
    {GGML_TYPE_Q5_1, code_strip_kernel<SimpleCodes<Q5_1, 0, 31> >},
    {GGML_TYPE_Q8_0, code_strip_kernel<SimpleCodes<Q8_0, 128, 127> >},
    {GGML_TYPE_IQ4_NL, code_strip_kernel<SimpleCodes<Iq4Nl, 127, 113> >},
    {GGML_TYPE_MXFP4, code_strip_kernel<SimpleCodes<Mxfp4, 12, 12> >},
    {GGML_TYPE_NVFP4, code_strip_kernel<SimpleCodes<Nvfp4, 12, 12> >},
};

}  // namespace

StripKernel simple_code_strips(Type type) { return find_code_strips(kEntries, type); }

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(simple_code_strips);

StripKernel simple_code_strips_of(Type type) {
    return HWY_DYNAMIC_DISPATCH(simple_code_strips)(type);
}

}  // namespace heddle::cpu
#endif
