#pragma once

#include <filesystem>

#include "core/error.hpp"

namespace heddle {

/// A shared library that is open. Closes itself.
class SharedLibrary {
public:
    /// Opens `path`: all symbols bound at once, none of them visible to other libraries. A file
    /// that is no complete shared library is turned away before the system's loader maps it, which
    /// would otherwise end the process on a truncated one. A bare file name is looked for where the
    /// system looks for libraries.
    static Result<SharedLibrary> open(const std::filesystem::path& path);

    SharedLibrary(SharedLibrary&& other) noexcept;
    SharedLibrary& operator=(SharedLibrary&& other) noexcept;
    ~SharedLibrary();

    /// The address of a symbol; null if there is none.
    void* find(const char* symbol) const;

    /// `find` as a function of type `Function*`; null if there is none.
    template <class Function>
    Function* function(const char* symbol) const {
        return reinterpret_cast<Function*>(find(symbol));
    }

    /// Leaves the library open until the process ends.
    void keep_open() { handle_ = nullptr; }

private:
    explicit SharedLibrary(void* handle) : handle_(handle) {}

    void* handle_ = nullptr;
};

/// Fails unless `path` is a regular file that begins like a shared library for this machine and
/// holds everything its headers promise.
Result<> check_shared_library(const std::filesystem::path& path);

}  // namespace heddle
