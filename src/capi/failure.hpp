#pragma once

#include <string_view>

/// Where failures end up that C callers ask for, or that stop the program.
namespace heddle::capi {

/// Calls the abort callback, or prints the message and a backtrace, and ends the program.
[[noreturn]] void stop_program(std::string_view message) noexcept;

}  // namespace heddle::capi
