// Threads, processes, mappings and libraries that are not to be had.

#include <dlfcn.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "tests/faults/fault_points.hpp"
#include "tests/faults/real_function.hpp"

namespace heddle::faults {
namespace {

using FindSymbol = void* (*)(void*, const char*);

std::atomic<long> mappings{0};

/// Versions under which the C library has had it, on the processors there are.
FindSymbol system_dlsym() {
    for (const char* version : {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"}) {
        if (void* found = dlvsym(RTLD_NEXT, "dlsym", version)) {
            return reinterpret_cast<FindSymbol>(found);
        }
    }
    return nullptr;
}

bool fails(Kind kind, int reason) {
    if (!strikes(kind)) return false;
    errno = reason;
    return true;
}

}  // namespace

void* next_symbol(const char* name) {
    static const FindSymbol find = system_dlsym();
    return find(RTLD_NEXT, name);
}

long live_mappings() { return mappings.load(); }

}  // namespace heddle::faults

using heddle::faults::fails;
using heddle::faults::Kind;
using heddle::faults::mappings;
using heddle::faults::next_symbol;
using heddle::faults::real_function;
using heddle::faults::strikes;

extern "C" {

void* mmap(void* at, std::size_t size, int protection, int flags, int file, off_t offset) noexcept {
    static const auto real = real_function<decltype(&::mmap)>("mmap");
    if (fails(Kind::mapping, ENOMEM)) return MAP_FAILED;
    void* const made = real(at, size, protection, flags, file, offset);
    if (made == MAP_FAILED) return made;
    mappings.fetch_add(1);
    heddle::faults::count_mapping(file);
    return made;
}

void* mmap64(void* at, std::size_t size, int protection, int flags, int file,
             off64_t offset) noexcept {
    return mmap(at, size, protection, flags, file, offset);
}

int munmap(void* at, std::size_t size) noexcept {
    static const auto real = real_function<decltype(&::munmap)>("munmap");
    const int status = real(at, size);
    if (status == 0) mappings.fetch_sub(1);
    return status;
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                   void* argument) noexcept {
    static const auto real = real_function<decltype(&::pthread_create)>("pthread_create");
    return strikes(Kind::thread) ? EAGAIN : real(thread, attributes, start, argument);
}

pid_t fork() noexcept {
    static const auto real = real_function<decltype(&::fork)>("fork");
    return fails(Kind::process, EAGAIN) ? -1 : real();
}

int pipe2(int ends[2], int flags) noexcept {
    static const auto real = real_function<decltype(&::pipe2)>("pipe2");
    return fails(Kind::process, EMFILE) ? -1 : real(ends, flags);
}

int posix_spawn(pid_t* process, const char* path, const posix_spawn_file_actions_t* actions,
                const posix_spawnattr_t* attributes, char* const arguments[],
                char* const environment[]) {
    static const auto real = real_function<decltype(&::posix_spawn)>("posix_spawn");
    return strikes(Kind::process)
               ? EAGAIN
               : real(process, path, actions, attributes, arguments, environment);
}

// The system's own functions are asked for what is not there, so that dlerror() has a reason.

void* dlopen(const char* path, int flags) noexcept {
    static const auto real = real_function<decltype(&::dlopen)>("dlopen");
    return real(strikes(Kind::library) ? "/a library that fails to load" : path, flags);
}

void* dlsym(void* __restrict library, const char* __restrict name) noexcept {
    static const auto real = real_function<decltype(&::dlsym)>("dlsym");
    return real(library, strikes(Kind::symbol) ? "a symbol that is not found" : name);
}

}  // extern "C"
