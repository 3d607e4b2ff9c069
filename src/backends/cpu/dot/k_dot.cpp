#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/dot/k_dot.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include "backends/cpu/dot/k_formats.hpp"

/// Super-blocks of evenly spaced levels (and iq4_xs), multiplied by q8_K.
HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if HWY_TARGET == HWY_SCALAR

DotColumns k_dot(Type) { return nullptr; }
DecodeRow k_decode(Type) { return nullptr; }

#else
namespace {

constexpr DotEntry kEntries[] = {
    {GGML_TYPE_Q2_K, dot_super_columns<Q2K>},
    {GGML_TYPE_Q3_K, dot_super_columns<Q3K>},
    {GGML_TYPE_Q4_K, dot_super_columns<Q4K>},
    {GGML_TYPE_Q5_K, dot_super_columns<Q5K>},
    {GGML_TYPE_Q6_K, dot_super_columns<Q6K>},
    {GGML_TYPE_IQ4_XS, dot_super_columns<Iq4Xs>},
    {GGML_TYPE_TQ1_0, dot_super_columns<Tq1>, decode_super<Tq1>},
    {GGML_TYPE_TQ2_0, dot_super_columns<Tq2>},
};

}  // namespace

DotColumns k_dot(Type type) { return find_dot(kEntries, type); }
DecodeRow k_decode(Type type) { return find_decode(kEntries, type); }

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(k_dot);
HWY_EXPORT(k_decode);

DotColumns k_dot_of(Type type) { return HWY_DYNAMIC_DISPATCH(k_dot)(type); }
DecodeRow k_decode_of(Type type) { return HWY_DYNAMIC_DISPATCH(k_decode)(type); }

}  // namespace heddle::cpu
#endif
