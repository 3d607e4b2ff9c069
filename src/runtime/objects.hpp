#pragma once

#include "ggml-backend-impl.h"

/// The plug-in tables are the objects: heddle calls `object.iface.member` and keeps no second
/// representation, because plug-ins make these structs themselves, replace members of them, and
/// recognise their own by comparing function pointers.
namespace heddle {

using BufferType = ::ggml_backend_buffer_type;
using Buffer = ::ggml_backend_buffer;
using Stream = ::ggml_backend;  ///< what the C API calls a backend
using Event = ::ggml_backend_event;
using Device = ::ggml_backend_device;
using Registration = ::ggml_backend_reg;

using Status = ::ggml_status;
using Usage = ::ggml_backend_buffer_usage;

}  // namespace heddle
