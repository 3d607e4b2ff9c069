#pragma once

#include "runtime/objects.hpp"

namespace heddle {

/// Number of buffers alive whose type, when they were made, belonged to a device of `registration`.
/// While there are any, its code must stay loaded: it is what frees them.
long live_buffers(Registration* registration);

/// One more buffer of `type`. Gives whom it was counted for; null if nobody offers the type.
Registration* count_buffer(BufferType& type) noexcept;

/// One less, of those counted for `registration`; null is allowed.
void discount_buffer(Registration* registration) noexcept;

}  // namespace heddle
