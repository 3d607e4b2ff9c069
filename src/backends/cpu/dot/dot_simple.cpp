#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/dot/dot_simple.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include "backends/cpu/dot/formats/simple.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if HWY_TARGET == HWY_SCALAR

DotColumns dot_simple(Type) { return nullptr; }

#else

DotColumns dot_simple(Type type) {
    return find_by_type<DotColumns, Family::simple>(
        type, []<Type kType>() -> DotColumns { return dot_simple_columns<BlockFormat<kType> >; });
}

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(dot_simple);

DotColumns dot_simple_of(Type type) { return HWY_DYNAMIC_DISPATCH(dot_simple)(type); }

}  // namespace heddle::cpu
#endif
