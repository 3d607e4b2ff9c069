#include "registry/shared_library.hpp"

#include <dlfcn.h>

#include <atomic>
#include <utility>

namespace heddle {
namespace {

/// A library may be mapped where another one was. The system's loader orders the two, but in code
/// that neither the memory model nor the thread sanitizer sees: whatever a thread did with a
/// library that it closed happens before any use of one that is opened later.
std::atomic<unsigned> closed{0};

}  // namespace

Result<SharedLibrary> SharedLibrary::open(const std::filesystem::path& path) {
    if (path.empty()) return invalid("the name of a shared library is empty");
    if (path.has_parent_path()) HEDDLE_TRY(check_shared_library(path));
    void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    (void)closed.load(std::memory_order_acquire);
    if (handle != nullptr) return SharedLibrary(handle);
    const char* reason = dlerror();
    return failure(Errc::io, reason != nullptr ? reason : "the system does not say why");
}

SharedLibrary::SharedLibrary(SharedLibrary&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)) {}

SharedLibrary& SharedLibrary::operator=(SharedLibrary&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
}

SharedLibrary::~SharedLibrary() {
    if (handle_ == nullptr) return;
    closed.fetch_add(1, std::memory_order_release);
    dlclose(handle_);
}

void* SharedLibrary::find(const char* symbol) const {
    return handle_ != nullptr ? dlsym(handle_, symbol) : nullptr;
}

}  // namespace heddle
