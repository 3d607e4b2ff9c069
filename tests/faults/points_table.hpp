/// Which points a sweep goes through, and how many there were.
#pragma once

#include "tests/faults/fault_points.hpp"

namespace heddle::faults {

/// The point after `number` in a sweep that is to end soon: all of the first ones, then fewer and
/// fewer. HEDDLE_SWEEP=full asks for all, HEDDLE_SWEEP=full:3/14 for the third share of fourteen:
/// points 3, 17, 31 and so on.
long next_point(long number, long all_below);

/// Where a sweep begins.
long first_point();

/// For the table at the end, and as a property of the running test.
void record_points(Kind kind, long points);

}  // namespace heddle::faults
