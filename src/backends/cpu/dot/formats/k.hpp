// Every format of the family k. Included once per instruction set, inside a file that is compiled
// by foreach_target.h.
#if defined(HEDDLE_CPU_DOT_FORMATS_K_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_DOT_FORMATS_K_HPP
#undef HEDDLE_CPU_DOT_FORMATS_K_HPP
#else
#define HEDDLE_CPU_DOT_FORMATS_K_HPP
#endif

#include "backends/cpu/dot/formats/iq4_xs.hpp"
#include "backends/cpu/dot/formats/q2_k.hpp"
#include "backends/cpu/dot/formats/q3_k.hpp"
#include "backends/cpu/dot/formats/q4_k.hpp"
#include "backends/cpu/dot/formats/q5_k.hpp"
#include "backends/cpu/dot/formats/q6_k.hpp"
#include "backends/cpu/dot/formats/tq1_0.hpp"
#include "backends/cpu/dot/formats/tq2_0.hpp"

#endif
