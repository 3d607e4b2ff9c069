#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/repack/repack_simple.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include "backends/cpu/dot/formats/simple.hpp"
#include "backends/cpu/repack/families.hpp"
#include "backends/cpu/repack/micro_panels.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if !HEDDLE_HAS_REPACK

RepackKernel repack_simple(Type) { return {}; }

#else

RepackKernel repack_simple(Type type) {
    return find_by_type<RepackKernel, Family::simple>(
        type, []<Type kType>() { return repack_kernel_of_format<BlockFormat<kType> >(); });
}

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(repack_simple);

RepackKernel repack_simple_of(Type type) { return HWY_DYNAMIC_DISPATCH(repack_simple)(type); }

}  // namespace heddle::cpu
#endif
