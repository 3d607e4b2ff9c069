#include "tests/faults/fault_points.hpp"

#include <execinfo.h>
#include <sys/stat.h>
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

bool is_watched(const Counter& counter, int file) {
    if (counter.watched_inode.load(std::memory_order_relaxed) == 0 || file < 0) return false;
    const int reason = errno;
    struct stat status {};
    const bool is_known = fstat(file, &status) == 0;
    errno = reason;
    return is_known && status.st_ino == counter.watched_inode.load() &&
           status.st_dev == counter.watched_device.load();
}

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

void watch(const std::string& path) {
    struct stat status {};
    Counter& counter = *used.load();
    const bool is_there = stat(path.c_str(), &status) == 0;
    counter.watched_device.store(status.st_dev);
    counter.watched_inode.store(is_there ? status.st_ino : 0);
    counter.opens.store(0);
    counter.mappings.store(0);
}

void count_open(int file) {
    Counter& counter = *used.load(std::memory_order_relaxed);
    if (is_watched(counter, file)) counter.opens.fetch_add(1);
}

void count_mapping(int file) {
    Counter& counter = *used.load(std::memory_order_relaxed);
    if (is_watched(counter, file)) counter.mappings.fetch_add(1);
}

long watched_opens() { return used.load()->opens.load(); }
long watched_mappings() { return used.load()->mappings.load(); }

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
