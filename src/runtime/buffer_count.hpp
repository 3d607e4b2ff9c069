#pragma once

#include "core/hooks.h"
#include "runtime/objects.hpp"

namespace heddle {

/// One more buffer of `type`. Gives what it was counted for; null if no device offers the type.
Registration* count_buffer(BufferType& type) noexcept;

/// One less, of those counted for `registration`; null is allowed.
void discount_buffer(Registration* registration) noexcept;

}  // namespace heddle
