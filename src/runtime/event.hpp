#pragma once

#include "core/error.hpp"
#include "runtime/objects.hpp"
#include "runtime/owned.hpp"

namespace heddle {

/// An event of `device`; null where the device has none to give.
OwnedEvent make_event(Device& device);

/// Moves the event to the end of what is queued on `stream` now.
Result<> record(Event& event, Stream& stream);

/// Makes later work of `stream` wait for the event; does not wait itself.
Result<> wait_for(Stream& stream, Event& event);

/// Waits until the event is reached; one that was never recorded is.
Result<> synchronize(Event& event);

}  // namespace heddle
