/// The functions that those of this directory stand in the way of.
#pragma once

#include <dlfcn.h>

namespace heddle::faults {

/// The system's `dlsym`, whoever defines one before it.
void* next_symbol(const char* name);

/// The function `name` that would have been called; looked for once.
///
///     static const auto real = real_function<decltype(&::open)>("open");
template <class Function>
Function real_function(const char* name) {
    return reinterpret_cast<Function>(next_symbol(name));
}

}  // namespace heddle::faults
