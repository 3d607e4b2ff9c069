/// Which points a sweep goes through, and how many there were.
#pragma once

#include "tests/faults/fault_points.hpp"

namespace heddle::faults {

/// The point after `number` in a sweep that is to end soon: all of the first ones, then fewer and
/// fewer. HEDDLE_SWEEP=full asks for all.
long next_point(long number, long all_below);

/// For the table at the end, and as a property of the running test.
void record_points(Kind kind, long points);

}  // namespace heddle::faults
