#pragma once

#include <span>
#include <string_view>

namespace heddle {

/// A function of a backend that programs find by its name.
struct NamedFunction {
    std::string_view name;
    void* function;
};

template <class Function>
NamedFunction named(std::string_view name, Function* function) {
    return {name, reinterpret_cast<void*>(function)};
}

/// Null if there is none of that name.
inline void* find_function(std::span<const NamedFunction> functions, std::string_view name) {
    for (const NamedFunction& each : functions) {
        if (each.name == name) return each.function;
    }
    return nullptr;
}

}  // namespace heddle
