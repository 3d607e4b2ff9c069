#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/dot/grid_dot.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include "backends/cpu/dot/grid_formats.hpp"

/// Formats that name rows of a codebook, multiplied by q8_K.
HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if HWY_TARGET == HWY_SCALAR

DotColumns grid_dot(Type) { return nullptr; }
DecodeRow grid_decode(Type) { return nullptr; }

#else
namespace {

template <class Format>
constexpr DotEntry entry(Type type) {
    return {type, dot_super_columns<Format>, decode_super<Format>};
}

constexpr DotEntry kEntries[] = {
    entry<Iq2Xxs>(GGML_TYPE_IQ2_XXS), entry<Iq2Xs>(GGML_TYPE_IQ2_XS), entry<Iq2S>(GGML_TYPE_IQ2_S),
    entry<Iq3Xxs>(GGML_TYPE_IQ3_XXS), entry<Iq3S>(GGML_TYPE_IQ3_S),   entry<Iq1S>(GGML_TYPE_IQ1_S),
    entry<Iq1M>(GGML_TYPE_IQ1_M),
};

}  // namespace

DotColumns grid_dot(Type type) { return find_dot(kEntries, type); }
DecodeRow grid_decode(Type type) { return find_decode(kEntries, type); }

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(grid_dot);
HWY_EXPORT(grid_decode);

DotColumns grid_dot_of(Type type) { return HWY_DYNAMIC_DISPATCH(grid_dot)(type); }
DecodeRow grid_decode_of(Type type) { return HWY_DYNAMIC_DISPATCH(grid_decode)(type); }

}  // namespace heddle::cpu
#endif
