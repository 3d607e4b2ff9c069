#include "runtime/event.hpp"

#include "core/last_error.hpp"
#include "runtime/contained.hpp"
#include "runtime/device.hpp"
#include "runtime/stream.hpp"

namespace heddle {

OwnedEvent make_event(Device& device) {
    return OwnedEvent(device.iface.event_new != nullptr ? device.iface.event_new(&device)
                                                        : nullptr);
}

void free_event(Event* event) noexcept {
    if (event == nullptr || event->device == nullptr) return;
    if (event->device->iface.event_free != nullptr) {
        contained([&] { event->device->iface.event_free(event->device, event); });
    }
}

Result<> record(Event& event, Stream& stream) {
    if (stream.iface.event_record == nullptr) {
        return failure(Errc::unsupported, "stream '", name_of(stream), "' cannot record events");
    }
    const Listener listener;
    stream.iface.event_record(&stream, &event);
    return listener.outcome("recording an event");
}

Result<> wait_for(Stream& stream, Event& event) {
    if (stream.iface.event_wait == nullptr) {
        return failure(Errc::unsupported, "stream '", name_of(stream), "' cannot wait for events");
    }
    const Listener listener;
    stream.iface.event_wait(&stream, &event);
    return listener.outcome("queueing a wait");
}

Result<> synchronize(Event& event) {
    if (event.device == nullptr) return invalid("event: it belongs to no device");
    if (event.device->iface.event_synchronize == nullptr) {
        return failure(Errc::unsupported, "device '", name_of(*event.device),
                       "' cannot wait for events");
    }
    const Listener listener;
    event.device->iface.event_synchronize(event.device, &event);
    return listener.outcome("waiting for an event");
}

}  // namespace heddle
