#include "tests/faults/fault_points.hpp"

#include <execinfo.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace heddle::faults {
namespace {

constexpr int kMostFrames = 40;

Counter own;
std::atomic<Counter*> used{&own};
void* frames[kMostFrames];
int frame_count = 0;
std::atomic<Kind> failed_kind{Kind::memory};
std::atomic<int> report_file{-1};

}  // namespace

const char* name_of(Kind kind) {
    constexpr const char* kNames[] = {
        "memory",       "mapping",     "open",          "read",
        "write",        "print",       "thread",        "process",
        "library",      "symbol",      "device memory", "device stream",
        "device event", "device copy", "device node",   "device lost"};
    return kNames[static_cast<int>(kind)];
}

void use_counter(Counter& counter) { used.store(&counter); }

void arm(Kind kind, long number, Fault fault) {
    Counter& counter = *used.load();
    counter.fault.store(static_cast<int>(fault));
    counter.left.store(number);
    counter.fired.store(false);
    counter.kind.store(static_cast<int>(kind));
}

void disarm() { used.load()->kind.store(Counter::kNothing); }
bool fired() { return used.load()->fired.load(); }

void set_report(int file) { report_file.store(file); }

bool strikes(Kind kind) {
    Counter& counter = *used.load(std::memory_order_relaxed);
    if (counter.kind.load(std::memory_order_relaxed) != static_cast<int>(kind)) return false;
    const long now = counter.left.fetch_sub(1) - 1;
    const bool stays = counter.fault.load() == static_cast<int>(Fault::from_then_on);
    if (now > 0 || (now < 0 && !stays)) return false;
    if (now == 0) {
        failed_kind.store(kind);
        frame_count = backtrace(frames, kMostFrames);
        counter.fired.store(true);
        const int report = report_file.load();
        if (report >= 0) backtrace_symbols_fd(frames, frame_count, report);
    }
    return true;
}

void print_failed_point() {
    if (!fired() || frame_count == 0) return;
    // Past the points of this library: they might be failing.
    const auto print = [](const char* text) {
        return syscall(SYS_write, STDERR_FILENO, text, std::strlen(text)) >= 0;
    };
    if (!print("what failed (") || !print(name_of(failed_kind)) || !print("):\n")) return;
    backtrace_symbols_fd(frames, frame_count, STDERR_FILENO);
}

}  // namespace heddle::faults
