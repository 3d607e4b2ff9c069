// Every format of the family simple. Included once per instruction set, inside a file that is
// compiled by foreach_target.h.
#if defined(HEDDLE_CPU_DOT_FORMATS_SIMPLE_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_DOT_FORMATS_SIMPLE_HPP
#undef HEDDLE_CPU_DOT_FORMATS_SIMPLE_HPP
#else
#define HEDDLE_CPU_DOT_FORMATS_SIMPLE_HPP
#endif

#include "backends/cpu/dot/formats/fp4.hpp"
#include "backends/cpu/dot/formats/iq4_nl.hpp"
#include "backends/cpu/dot/formats/q1_0.hpp"
#include "backends/cpu/dot/formats/q2_0.hpp"
#include "backends/cpu/dot/formats/q4_0.hpp"
#include "backends/cpu/dot/formats/q5_0.hpp"
#include "backends/cpu/dot/formats/q8_0.hpp"

#endif
