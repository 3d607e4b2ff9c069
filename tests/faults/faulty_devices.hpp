/// Two simulated devices whose memory, streams, events, copies and nodes can be made to fail.
#pragma once

#include <array>

#include "ggml-backend.h"
#include "tests/faults/fault_points.hpp"

namespace heddle::faults {

inline constexpr std::array kDeviceKinds{Kind::device_memory, Kind::device_stream,
                                         Kind::device_event,  Kind::device_copy,
                                         Kind::device_node,   Kind::device_lost};

/// Those that the devices are told of beforehand; the others are points of this process.
constexpr bool is_planned(Kind kind) { return kind >= Kind::device_copy; }

/// Makes the devices anew. Unless `traced`, they keep no record of what they do, which would look
/// like blocks left over.
void configure_devices(bool traced = false);

ggml_backend_dev_t simulated(std::size_t index);

/// Keeps what the devices did since they were configured with a record, as the points at which they
/// can fail.
void take_record();

/// Tells the devices to fail at a point of a planned kind: those of the first device come first.
/// False, and nothing is planned, if there are not so many.
bool plan_failure(Kind kind, long number);

/// Nothing fails any more, and what failed is forgotten.
void mend_devices();

}  // namespace heddle::faults
