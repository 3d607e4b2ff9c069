#pragma once

#include "core/context.hpp"
#include "tests/campaign/door.hpp"

namespace heddle::campaign {

// Both give the last tensor that was made; null if all was refused.

/// The builders of a recorded case, with some arguments and operands changed.
Tensor* call_almost_as_recorded(Context& context, Choices& choices, Trace& trace);

/// Any builders, with any arguments.
Tensor* call_anything(Context& context, Choices& choices, Trace& trace);

}  // namespace heddle::campaign
