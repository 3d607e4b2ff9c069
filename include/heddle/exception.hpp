/// Exceptions as errors, for the places where code of others is called and nothing may be thrown
/// on.
#pragma once

#include <exception>
#include <new>

#include "result.hpp"

namespace heddle {

/// The exception being handled, as an error. Call it in a catch block only.
inline Error current_exception_as_error() noexcept {
    try {
        try {
            throw;
        } catch (const std::bad_alloc&) {
            return {Errc::out_of_memory, "out of memory"};
        } catch (const std::exception& exception) {
            return {Errc::device, exception.what()};
        } catch (...) {
            return {Errc::device, "an exception that is no std::exception was thrown"};
        }
    } catch (...) {
        return {Errc::out_of_memory, {}};  // not even room for the sentence
    }
}

}  // namespace heddle
