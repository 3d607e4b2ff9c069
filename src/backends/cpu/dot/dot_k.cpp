#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/dot/dot_k.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include "backends/cpu/dot/formats/k.hpp"

/// Super-blocks of evenly spaced levels (and iq4_xs), multiplied by q8_K.
HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if HWY_TARGET == HWY_SCALAR

DotColumns dot_k(Type) { return nullptr; }
DecodeRow decode_k(Type) { return nullptr; }

#else

DotColumns dot_k(Type type) {
    return find_by_type<DotColumns, Family::k>(
        type, []<Type kType>() -> DotColumns { return dot_super_columns<BlockFormat<kType> >; });
}
DecodeRow decode_k(Type type) {
    return type == GGML_TYPE_TQ1_0 ? decode_super<BlockFormat<GGML_TYPE_TQ1_0> > : nullptr;
}

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(dot_k);
HWY_EXPORT(decode_k);

DotColumns dot_k_of(Type type) { return HWY_DYNAMIC_DISPATCH(dot_k)(type); }
DecodeRow decode_k_of(Type type) { return HWY_DYNAMIC_DISPATCH(decode_k)(type); }

}  // namespace heddle::cpu
#endif
