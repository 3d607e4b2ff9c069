#include "worker.hpp"

#include <execinfo.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>

#include "live_heap.hpp"
#include "settings.hpp"

namespace heddle::campaign {
namespace {

constexpr int kMostFrames = 48;
// To look for a leak is to run the case again and again. Most suspects have filled a cache.
constexpr std::uint64_t kLeakSample = 32;
constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM, SIGTRAP, SIGSYS};

using Clock = std::chrono::steady_clock;

std::int64_t now() { return Clock::now().time_since_epoch().count(); }

}  // namespace

struct Worker::Shared {
    /// Where a case is, or how it ended.
    enum class State : int { idle, running, wrong, done };

    std::atomic<State> state;
    std::atomic<std::uint64_t> seed;
    std::atomic<std::int64_t> started;  ///< the case under way
    std::atomic<int> signal;
    std::atomic<int> frame_count;
    void* frames[kMostFrames];
    char what[1 << 13];
    char trace[1 << 16];
    ChoiceRecord choices;
};

namespace {

std::atomic<int>* crash_signal = nullptr;
std::atomic<int>* crash_count = nullptr;
void** crash_frames = nullptr;

/// The case cannot go on. Says where it was, and dies of the same signal.
void note_crash(int signal) {
    if (crash_signal->exchange(signal) == 0) {
        *crash_count = backtrace(crash_frames, kMostFrames);
    }
    std::signal(signal, SIG_DFL);
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, signal);
    sigprocmask(SIG_UNBLOCK, &one, nullptr);
    raise(signal);
    _exit(3);
}

void catch_crashes() {
    void* first[1];
    backtrace(first, 1);  // loads what it needs, while that is possible
    // A stack that overflows leaves no room for the handler.
    constexpr std::size_t kStack = 1 << 16;
    static std::byte stack[kStack];
    stack_t other{};
    other.ss_sp = stack, other.ss_size = kStack;
    sigaltstack(&other, nullptr);
    struct sigaction action {};
    action.sa_handler = note_crash;
    action.sa_flags = SA_ONSTACK | SA_NODEFER;
    for (const int signal : kSignals) sigaction(signal, &action, nullptr);
}

void limit(__rlimit_resource which, rlim_t most) {
    rlimit both{};
    getrlimit(which, &both);
    both.rlim_cur = std::min(both.rlim_max, most);
    setrlimit(which, &both);
}

/// So that a child cannot harm the machine: a case that asks for all its memory is to be told no.
void limit_resources() {
    limit(RLIMIT_CORE, 0);
#ifndef HEDDLE_CAMPAIGN_SANITIZED
    constexpr rlim_t kMostMemory = rlim_t{3} << 30;  // and many run at a time
    // A driver maps the memory of all its devices.
    if (settings().others().empty()) limit(RLIMIT_AS, kMostMemory);
#endif
}

/// Whether the case leaves heap behind each time it is run. Once proves nothing: caches are filled
/// when something is used for the first time, and threads may free late.
std::string find_leak(const Door& door, const std::vector<std::uint32_t>& choices) {
    const auto left_by = [&](int times) {
        release_kept();
        const long before = live_heap();
        for (int i = 0; i < times; ++i) {
            Choices same(choices);
            Trace none;
            door.run(same, none);
        }
        release_kept();
        return live_heap() - before;
    };
    constexpr int kMore = 8;
    left_by(1);
    const long more = left_by(1 + kMore) - left_by(1);
    if (more < kMore) return {};
    return text("leak: ", more / kMore, " blocks of heap are left over each time");
}

/// One case; empty if it passes.
std::string run_case(const Door& door, Choices& choices, Trace& trace, bool looks_for_leaks) {
    const long before = live_heap();
    std::string wrong = door.run(choices, trace);
    const bool is_suspect = wrong.empty() && live_heap() > before;
    if (is_suspect && looks_for_leaks) wrong = find_leak(door, choices.made());
    return wrong;
}

/// Nothing of the parent's is to be written or destroyed again, but counters of a coverage build
/// are written when a program exits.
[[noreturn]] void end_child() {
#ifdef HEDDLE_CAMPAIGN_COVERAGE
    std::exit(0);
#else
    _exit(0);
#endif
}

}  // namespace

Worker::Worker() {
    void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) std::abort();  // nothing can be found without it
    shared_ = static_cast<Shared*>(memory);
    said_ = memfd_create("said", MFD_CLOEXEC);
    std::string name = std::filesystem::temp_directory_path() / "heddle-campaign-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) std::abort();  // as above
    scratch_ = name;
    settings().scratch = std::move(name);
}

Worker::~Worker() {
    munmap(shared_, sizeof(Shared));
    close(said_);
    std::error_code ignored;  // it stays, then
    std::filesystem::remove_all(scratch_, ignored);
}

/// Runs `body` in a child and waits for its end.
template <class Body>
std::optional<Failure> Worker::in_child(const Door& door, Body body) {
    shared_->state = Shared::State::idle;
    shared_->signal = 0, shared_->frame_count = 0;
    shared_->choices.count = 0;
    shared_->started = now();
    shared_->what[0] = shared_->trace[0] = 0;
    if (ftruncate(said_, 0) != 0) return Failure{.what = "its output has no place"};
    int ends[2];  // the child's end is closed when it is gone
    if (pipe2(ends, O_CLOEXEC) != 0) return Failure{.what = "no pipe to a child"};
    const pid_t child = fork();
    if (child == 0) {
        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        lseek(said_, 0, SEEK_SET);
        dup2(said_, STDERR_FILENO);
        dup2(said_, STDOUT_FILENO);
        crash_signal = &shared_->signal, crash_count = &shared_->frame_count;
        crash_frames = shared_->frames;
        catch_crashes();
        limit_resources();
        body();
        shared_->state = Shared::State::done;
        end_child();
    }
    close(ends[1]);
    bool hung = child < 0;
    while (!hung) {
        pollfd gone{.fd = ends[0], .events = POLLIN, .revents = 0};
        if (poll(&gone, 1, 100) > 0) break;
        hung = overdue(door);
    }
    if (hung && child > 0) {
        kill(child, SIGALRM);  // says where it is
        pollfd gone{.fd = ends[0], .events = POLLIN, .revents = 0};
        poll(&gone, 1, 2000);
    }
    close(ends[0]);
    if (child < 0) return Failure{.what = "no child can be started"};
    kill(-child, SIGKILL);  // with all that it started itself
    int status = 0;
    waitpid(child, &status, 0);
    return judge(status, hung);
}

bool Worker::overdue(const Door& door) const {
    const auto passed = std::chrono::nanoseconds(now() - shared_->started);
    return shared_->state != Shared::State::done && passed > std::chrono::seconds(door.seconds);
}

std::optional<Failure> Worker::judge(int status, bool hung) const {
    const Shared::State state = shared_->state;
    if (state == Shared::State::done) return std::nullopt;
    Failure failure;
    failure.seed = shared_->seed;
    const std::uint32_t count = std::min(shared_->choices.count.load(), ChoiceRecord::kMost);
    failure.choices.assign(shared_->choices.values, shared_->choices.values + count);
    failure.trace = shared_->trace;
    const int frames = shared_->frame_count;
    failure.frames.assign(shared_->frames, shared_->frames + frames);
    constexpr std::size_t kMostSaid = 4000;
    char said[kMostSaid];
    const ssize_t n = pread(said_, said, kMostSaid, 0);
    if (n > 0) failure.said.assign(said, static_cast<std::size_t>(n));
    if (state == Shared::State::wrong) {
        failure.what = shared_->what;
    } else if (hung) {
        failure.kind = Failure::Kind::hung;
    } else if (WIFSIGNALED(status)) {
        failure.kind = Failure::Kind::crashed;
        failure.code = shared_->signal != 0 ? shared_->signal.load() : WTERMSIG(status);
    } else {
        failure.kind = Failure::Kind::ended;
        failure.code = WEXITSTATUS(status);
    }
    return failure;
}

namespace {

/// Of all children that are gone.
std::uint64_t cpu_nanoseconds_of_children() {
    rusage used{};
    getrusage(RUSAGE_CHILDREN, &used);
    const auto nanoseconds = [](const timeval& time) {
        return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000U +
               static_cast<std::uint64_t>(time.tv_usec) * 1000U;
    };
    return nanoseconds(used.ru_utime) + nanoseconds(used.ru_stime);
}

/// True if the text is empty: the case has passed.
bool passed(const std::string& wrong, std::span<char> what) {
    if (wrong.empty()) return true;
    const std::size_t n = std::min(wrong.size(), what.size() - 1);
    std::copy_n(wrong.data(), n, what.data());
    what[n] = 0;
    return false;
}

}  // namespace

std::optional<Failure> Worker::run(const Door& door, const Slice& slice, Tally& tally) {
    const std::int64_t begun = now();
    const std::uint64_t used = cpu_nanoseconds_of_children();
    auto failure = in_child(door, [&] {
        Trace none;
        while (Clock::now() < slice.end) {
            const std::uint64_t number = tally.next.fetch_add(1);
            if (number >= slice.cases) break;
            shared_->seed = slice.first_seed + number;
            shared_->choices.count = 0;
            shared_->started = now();
            shared_->state = Shared::State::running;
            Choices choices(slice.first_seed + number);
            choices.keep_in(shared_->choices);
            const std::string wrong = run_case(door, choices, none, number % kLeakSample == 0);
            if (!passed(wrong, shared_->what)) {
                shared_->state = Shared::State::wrong;
                end_child();
            }
            tally.done.fetch_add(1);
        }
    });
    if (failure) tally.done.fetch_add(1), tally.failures.fetch_add(1);
    tally.nanoseconds.fetch_add(static_cast<std::uint64_t>(now() - begun));
    tally.cpu_nanoseconds.fetch_add(cpu_nanoseconds_of_children() - used);
    return failure;
}

std::optional<Failure> Worker::replay(const Door& door, std::vector<std::uint32_t> choices) {
    return in_child(door, [&] {
        Trace trace(shared_->trace);
        Choices again(std::move(choices));
        again.keep_in(shared_->choices);
        shared_->started = now();
        shared_->state = Shared::State::running;
        const std::string wrong = run_case(door, again, trace, true);
        if (passed(wrong, shared_->what)) return;
        shared_->state = Shared::State::wrong;
        end_child();
    });
}

}  // namespace heddle::campaign
