/// For backend authors: write ordinary classes, get the tables of the plug-in interface.
///
/// Five kinds of class make a backend:
///
/// | class         | is                       | becomes                                           |
/// | ------------- | ------------------------ | ------------------------------------------------- |
/// | a buffer      | memory of the device     | BufferTable<B>, by make_buffer()                  |
/// | a buffer type | what makes buffers       | derive from BufferType<Self>                      |
/// | a stream      | a queue of work          | StreamTable<D, S>, by Device                      |
/// | a device      | what makes streams       | derive from Device<Self>                          |
/// | registration  | the backend's devices    | derive from Registration<Self>, registration<R>() |
///
/// What each may have is listed at the concepts in `backend/buffer.hpp` and `backend/stream.hpp`
/// and at the base classes. Optional members are found by looking for them: what a class does not
/// have is NULL in its table, and the library does what the interface documents for that. A member
/// with other parameters is not found, so say what you rely on:
/// `static_assert(heddle::plugin::Reads<MyBuffer>)`.
///
/// Members may return a `Result` or throw; neither leaves the plug-in. A failure is reported (log
/// and heddle_last_error()) and becomes a status, NULL or false.
///
/// Put your classes in an unnamed namespace, or in one of your own: two plug-ins with classes of
/// the same name in one process must not be mixed up. Only functions of the C API are called, so a
/// plug-in needs to be linked to `ggml-base` alone.
#pragma once

#include "backend/buffer.hpp"
#include "backend/device.hpp"
#include "backend/guard.hpp"
#include "backend/stream.hpp"
#include "result.hpp"
