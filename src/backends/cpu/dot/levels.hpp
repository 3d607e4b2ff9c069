// Codes of four bits that name one of sixteen levels. Included once per instruction set, inside a
// file that is compiled by foreach_target.h.
#if defined(HEDDLE_CPU_DOT_LEVELS_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_DOT_LEVELS_HPP
#undef HEDDLE_CPU_DOT_LEVELS_HPP
#else
#define HEDDLE_CPU_DOT_LEVELS_HPP
#endif

#include "backends/cpu/dot/block_dot.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

alignas(16) constexpr std::int8_t kNonlinearLevels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                          1,    13,   25,  38,  53,  69,  89,  113};

/// Twice the values of E2M1; the formats' scales are halved to match.
alignas(16) constexpr std::int8_t kFp4Levels[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                                    0, -1, -2, -3, -4, -6, -8, -12};

template <class V>
HWY_INLINE V look_up(const std::int8_t (&levels)[16], V codes) {
    return hn::TableLookupBytes(hn::LoadDup128(hn::DFromV<V>(), levels), codes);
}

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
