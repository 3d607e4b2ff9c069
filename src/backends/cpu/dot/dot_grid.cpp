#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/dot/dot_grid.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include "backends/cpu/dot/formats/grid.hpp"

/// Formats that name rows of a codebook, multiplied by q8_K.
HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if HWY_TARGET == HWY_SCALAR

DotColumns dot_grid(Type) { return nullptr; }
DecodeRow decode_grid(Type) { return nullptr; }

#else

DotColumns dot_grid(Type type) {
    return find_by_type<DotColumns, Family::grid>(
        type, []<Type kType>() -> DotColumns { return dot_super_columns<BlockFormat<kType> >; });
}
DecodeRow decode_grid(Type type) {
    return find_by_type<DecodeRow, Family::grid>(
        type, []<Type kType>() -> DecodeRow { return decode_super<BlockFormat<kType> >; });
}

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(dot_grid);
HWY_EXPORT(decode_grid);

DotColumns dot_grid_of(Type type) { return HWY_DYNAMIC_DISPATCH(dot_grid)(type); }
DecodeRow decode_grid_of(Type type) { return HWY_DYNAMIC_DISPATCH(decode_grid)(type); }

}  // namespace heddle::cpu
#endif
