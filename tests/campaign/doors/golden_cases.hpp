#pragma once

#include "golden/case_file.hpp"
#include "tests/campaign/door.hpp"

namespace heddle::campaign {

/// One of the recorded nodes in tests/data/golden: every op, type and layout is among them.
const golden::OpCase& any_golden_case(Choices& choices);

}  // namespace heddle::campaign
