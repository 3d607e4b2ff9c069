#pragma once

#include <memory>

#include "core/error.hpp"
#include "runtime/objects.hpp"

namespace heddle {

/// An event of `device`; null where the device has none to give.
Event* make_event(Device& device);

/// Null is allowed.
void free_event(Event* event) noexcept;

struct FreeEvent {
    void operator()(Event* event) const noexcept { free_event(event); }
};
using OwnedEvent = std::unique_ptr<Event, FreeEvent>;

/// Moves the event to the end of what is queued on `stream` now.
Result<> record(Event& event, Stream& stream);

/// Makes later work of `stream` wait for the event; does not wait itself.
Result<> wait_for(Stream& stream, Event& event);

/// Waits until the event is reached; one that was never recorded is.
Result<> synchronize(Event& event);

}  // namespace heddle
