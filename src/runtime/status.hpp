#pragma once

#include <string_view>

#include "core/error.hpp"
#include "runtime/objects.hpp"

namespace heddle {

/// "FAILED", "ALLOC_FAILED", "ABORTED", "SUCCESS", or "unknown".
std::string_view name_of(Status status);

/// What a backend answered, as a Result. `what` begins the sentence: "compute on stream 'CPU'".
Result<> from_status(Status status, std::string_view what);

/// The status a C caller gets for `error`; the inverse of `from_status` for what came from one.
Status to_status(const Error& error);

}  // namespace heddle
