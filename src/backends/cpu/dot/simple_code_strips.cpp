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

/// A format whose codes are from -kLeast to kMost. Each part of a row is 32 elements.
template <class Simple, int kLeast, int kMost>
struct SimpleCodes {
    using Other = typename Simple::Other;
    static constexpr int kGroups = Simple::kHasTwoScales ? 2 : 1;
    static constexpr bool kHasMinima = Simple::kHasMinimum;
    static constexpr int kOffset = kLeast;
    static constexpr int kMostCode = kLeast + kMost;
    static constexpr int kSlots = 2;

    static constexpr int parts(std::int64_t count) { return static_cast<int>(count / 32); }
    static constexpr int slots(int) { return kSlots; }
    static constexpr int group(int part, int slot) { return 2 * part + slot; }

    template <class Packer>
    static HWY_INLINE void put_scales(StripRows rows, std::int64_t count, Packer& to) {
        put_values(
            rows, parts(count) * kGroups,
            [](const std::byte* block, int g) HWY_ATTR { return Simple::stored_scale(block, g); },
            [&](int g, FloatVec values) HWY_ATTR { to.put_scales(g, values); });
        if constexpr (kHasMinima) {
            put_values(
                rows, parts(count),
                [](const std::byte* block, int) HWY_ATTR { return Simple::stored_minimum(block); },
                [&](int g, FloatVec values) HWY_ATTR { to.put_minima(g, hn::Neg(values)); });
        }
    }

    template <class Source, class Put>
    static HWY_INLINE void codes(const Source& from, int part, Put put) {
        const hn::RebindToSigned<ByteLanes> lanes;
        auto low = hn::Zero(lanes), high = low;
        Simple::unpack(from + block_at(part), part % kPerBlock, low, high);
        put(0, low);
        put(1, high);
    }

private:
    /// What `get` reads from blocks, from all rows at a time. All of it is read before any is used:
    /// vectors that are loaded right after their lanes were stored would have to wait.
    template <class Get, class Put>
    static HWY_INLINE void put_values(StripRows rows, int groups, Get get, Put put) {
        using Stored = decltype(get(rows.first, 0));
        HWY_ALIGN Stored values[16][kCodeRows];
        for (std::int64_t r = 0; r < kCodeRows; ++r) {
            for (int g = 0; g < groups; ++g) {
                const int part = g / kGroups;
                values[g][r] =
                    get(rows.row(r) + block_at(part), part % kPerBlock * kGroups + g % kGroups);
            }
        }
        for (int g = 0; g < groups; ++g) put(g, load_f32(FloatLanes(), values[g]));
    }

    static constexpr int kPerBlock = Simple::kElements / 32;

    static HWY_INLINE std::size_t block_at(int part) {
        return static_cast<std::size_t>(part / kPerBlock) * sizeof(typename Simple::Block);
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
