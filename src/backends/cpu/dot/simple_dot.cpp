#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/dot/simple_dot.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include "backends/cpu/dot/simple_formats.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if HWY_TARGET == HWY_SCALAR

DotColumns simple_dot(Type) { return nullptr; }

#else
namespace {

constexpr DotEntry kEntries[] = {
    {GGML_TYPE_Q1_0, dot_simple_columns<Q1_0>},   {GGML_TYPE_Q2_0, dot_simple_columns<Q2_0>},
    {GGML_TYPE_Q4_0, dot_simple_columns<Q4_0>},   {GGML_TYPE_Q4_1, dot_simple_columns<Q4_1>},
    {GGML_TYPE_Q5_0, dot_simple_columns<Q5_0>},   {GGML_TYPE_Q5_1, dot_simple_columns<Q5_1>},
    {GGML_TYPE_Q8_0, dot_simple_columns<Q8_0>},   {GGML_TYPE_IQ4_NL, dot_simple_columns<Iq4Nl>},
    {GGML_TYPE_MXFP4, dot_simple_columns<Mxfp4>}, {GGML_TYPE_NVFP4, dot_simple_columns<Nvfp4>},
};

}  // namespace

DotColumns simple_dot(Type type) { return find_dot(kEntries, type); }

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(simple_dot);

DotColumns simple_dot_of(Type type) { return HWY_DYNAMIC_DISPATCH(simple_dot)(type); }

}  // namespace heddle::cpu
#endif
