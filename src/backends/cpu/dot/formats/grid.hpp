// Every format of the family grid. Included once per instruction set, inside a file that is
// compiled by foreach_target.h.
#if defined(HEDDLE_CPU_DOT_FORMATS_GRID_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_DOT_FORMATS_GRID_HPP
#undef HEDDLE_CPU_DOT_FORMATS_GRID_HPP
#else
#define HEDDLE_CPU_DOT_FORMATS_GRID_HPP
#endif

#include "backends/cpu/dot/formats/iq1.hpp"
#include "backends/cpu/dot/formats/iq2.hpp"
#include "backends/cpu/dot/formats/iq3.hpp"

#endif
