#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "ggml-backend.h"
#include "gguf.h"

/// Calls of C functions with arguments made for the purpose: valid ones, and NULL.
namespace heddle::misuse {

/// Objects to call functions with. Made before the calls, each of which has a process of its own.
struct Objects {
    ggml_context* context;
    ggml_tensor* tensor;
    ggml_cgraph* graph;
    ggml_backend_t stream;
    ggml_backend_dev_t device;
    ggml_backend_reg_t registration;
    ggml_backend_buffer_type_t type;
    ggml_backend_buffer_t buffer;
    ggml_backend_sched_t scheduler;
    gguf_context* file;
    void* memory;  ///< zeros, enough for whatever is behind other pointers
};
const Objects& objects();

/// A value of T that functions accept as far as one can tell from its type alone.
template <class T>
T plausible() {
    using Target = std::remove_cv_t<std::remove_pointer_t<T>>;
    if constexpr (!std::is_pointer_v<T>) {
        if constexpr (std::is_arithmetic_v<T>)
            return static_cast<T>(256);  // a whole block of any type
        return T{};
    } else if constexpr (std::is_function_v<Target>) {
        return nullptr;
    } else if constexpr (std::is_same_v<Target, ggml_context>) {
        return objects().context;
    } else if constexpr (std::is_same_v<Target, ggml_tensor>) {
        return objects().tensor;
    } else if constexpr (std::is_same_v<Target, ggml_cgraph>) {
        return objects().graph;
    } else if constexpr (std::is_same_v<Target, ggml_backend>) {
        return objects().stream;
    } else if constexpr (std::is_same_v<Target, ggml_backend_device>) {
        return objects().device;
    } else if constexpr (std::is_same_v<Target, ggml_backend_reg>) {
        return objects().registration;
    } else if constexpr (std::is_same_v<Target, ggml_backend_buffer_type>) {
        return objects().type;
    } else if constexpr (std::is_same_v<Target, ggml_backend_buffer>) {
        return objects().buffer;
    } else if constexpr (std::is_same_v<Target, ggml_backend_sched>) {
        return objects().scheduler;
    } else if constexpr (std::is_same_v<Target, gguf_context>) {
        return objects().file;
    } else if constexpr (std::is_same_v<Target, char>) {
        return static_cast<T>(const_cast<char*>("name"));
    } else if constexpr (std::is_void_v<Target> || std::is_arithmetic_v<Target> ||
                         std::is_pointer_v<Target>) {
        return static_cast<T>(objects().memory);
    } else {
        return nullptr;  // a handle that only the function's own family makes
    }
}

/// A function of the C API, ready to be called.
struct Function {
    std::string name;
    std::vector<bool> is_pointer;  ///< of each parameter
    /// Calls it with NULL and 0 for every parameter.
    std::function<void()> call_with_nothing;
    /// Calls it with plausible arguments, but NULL for one.
    std::function<void(std::size_t missing)> call_without;
};

template <class T>
T unless_missing(std::size_t index, std::size_t missing) {
    return index == missing ? T{} : plausible<T>();
}

template <class Called, class... Parameters>
Function describe_function(const char* name, Called called) {
    return {.name = name,
            .is_pointer = {std::is_pointer_v<Parameters>...},
            .call_with_nothing = [called] { called(Parameters{}...); },
            .call_without =
                [called](std::size_t missing) {
                    [&]<std::size_t... i>(std::index_sequence<i...>) {
                        called(unless_missing<Parameters>(i, missing)...);
                    }
                    (std::index_sequence_for<Parameters...>{});
                }};
}

template <class Returned, class... Parameters>
Function function_of(const char* name, Returned (*function)(Parameters...)) {
    return describe_function<decltype(function), Parameters...>(name, function);
}

/// Those with more parameters, such as a format's values: none are given.
template <class Returned, class... Parameters>
Function function_of(const char* name, Returned (*function)(Parameters..., ...)) {
    return describe_function<decltype(function), Parameters...>(name, function);
}

/// All of them; made from the tables of tests/abi.
const std::vector<Function>& all_functions();

}  // namespace heddle::misuse
