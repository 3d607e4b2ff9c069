#pragma once

#include <memory>

#include "runtime/objects.hpp"

/// Owners of the objects that devices make for one user. What makes such an object returns its
/// owner; only tables and C callers get the bare pointer.
namespace heddle {

/// Releases the memory through the table, then the object. Null is allowed.
void free_buffer(Buffer* buffer) noexcept;

struct FreeBuffer {
    void operator()(Buffer* buffer) const noexcept { free_buffer(buffer); }
};
using OwnedBuffer = std::unique_ptr<Buffer, FreeBuffer>;

/// Releases the stream through its table, the object included. Null is allowed.
void free_stream(Stream* stream) noexcept;

struct FreeStream {
    void operator()(Stream* stream) const noexcept { free_stream(stream); }
};
using OwnedStream = std::unique_ptr<Stream, FreeStream>;

/// Null is allowed.
void free_event(Event* event) noexcept;

struct FreeEvent {
    void operator()(Event* event) const noexcept { free_event(event); }
};
using OwnedEvent = std::unique_ptr<Event, FreeEvent>;

}  // namespace heddle
