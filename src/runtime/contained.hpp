#pragma once

#include "core/last_error.hpp"
#include "heddle/exception.hpp"

namespace heddle {

/// Calls a function of a table that has no way to fail, such as one that releases something. Tables
/// must not throw; one that does so all the same is told of instead of ending the program.
template <class Call>
void contained(Call&& call) noexcept {
    try {
        call();
    } catch (...) {
        keep_sentence(current_exception_as_error().message);
    }
}

}  // namespace heddle
