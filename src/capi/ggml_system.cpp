// Versions, clocks, files, identifiers, locks: what a program asks of the library itself.

#include <chrono>
#include <cstdio>
#include <cstring>
#include <mutex>

#include "core/context.hpp"
#include "ggml-impl.h"
#include "ggml-threading.h"
#include "heddle/heddle.h"

using namespace heddle;

namespace {

using Clock = std::chrono::steady_clock;

template <class Unit>
std::int64_t now() {
    return std::chrono::duration_cast<Unit>(Clock::now().time_since_epoch()).count();
}

}  // namespace

const char* ggml_version(void) { return HEDDLE_INTERFACE_VERSION; }
const char* heddle_version(void) { return HEDDLE_VERSION; }
const char* ggml_commit(void) { return HEDDLE_COMMIT; }

// The clock needs no set-up; programs written for ggml call this first.
void ggml_time_init(void) {}
std::int64_t ggml_time_ms(void) { return now<std::chrono::milliseconds>(); }
std::int64_t ggml_time_us(void) { return now<std::chrono::microseconds>(); }
std::int64_t ggml_cycles(void) { return now<std::chrono::nanoseconds>(); }
std::int64_t ggml_cycles_per_ms(void) { return 1'000'000; }

FILE* ggml_fopen(const char* fname, const char* mode) {
    return fname == nullptr || mode == nullptr ? nullptr : std::fopen(fname, mode);
}

bool ggml_guid_matches(ggml_guid_t guid_a, ggml_guid_t guid_b) {
    return guid_a != nullptr && guid_b != nullptr &&
           std::memcmp(guid_a, guid_b, sizeof(ggml_guid)) == 0;
}

const char* ggml_status_to_string(ggml_status status) {
    switch (status) {
        case GGML_STATUS_ALLOC_FAILED:
            return "GGML status: error (failed to allocate memory)";
        case GGML_STATUS_FAILED:
            return "GGML status: error (operation failed)";
        case GGML_STATUS_SUCCESS:
            return "GGML status: success";
        case GGML_STATUS_ABORTED:
            return "GGML status: warning (operation aborted)";
    }
    return "GGML status: unknown";
}

void* ggml_aligned_malloc(size_t size) { return aligned_allocate(size); }
void ggml_aligned_free(void* ptr, size_t) { aligned_free(ptr); }

static std::mutex critical_section;
void ggml_critical_section_start(void) { critical_section.lock(); }
void ggml_critical_section_end(void) { critical_section.unlock(); }
