#pragma once

#include <string_view>

#include "core/error.hpp"
#include "heddle/heddle.h"

namespace heddle::mpi {

/// Runs a function of the C API that has no way to report; gives what it left behind.
template <class Call>
Result<> reported(const Call& call) {
    heddle_clear_error();
    call();
    if (*heddle_last_error() == '\0') return ok();
    return Error{Errc::device, heddle_last_error()};
}

/// Why what was begun is not done to its end.
inline Error leaves() { return failure(Errc::aborted, "the worker leaves"); }

/// What rank 0 sent is not what it should be.
inline Error broken(std::string_view what) {
    return failure(Errc::corrupt, what, " that breaks off");
}

}  // namespace heddle::mpi
