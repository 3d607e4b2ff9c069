#include "backends/cpu/thread_pool.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <new>
#include <system_error>

#include "backends/cpu/numa.hpp"
#include "backends/cpu/topology.hpp"
#include "core/log.hpp"

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#include <sched.h>
#endif

using namespace heddle;
using namespace heddle::cpu;

namespace {

/// An idle thread spins for this long for each unit of `poll`; with the default of 50 that bridges
/// the gaps inside a graph and between the graphs of a busy program, and no more.
constexpr int kSpinPerPollUs = 4;
constexpr std::uint32_t kMostPoll = 100;

/// A thread that is done lets so much time pass before it looks for tasks of others: if those have
/// begun, looking only takes their cache lines away.
constexpr int kMomentUs = 2;

/// A thread that gets work wakes at most this many others; those wake the next.
constexpr int kWakeFanOut = 4;

CpuList cpus_of_mask(const ggml_threadpool_params& params) {
    CpuList cpus;
    for (int cpu = 0; cpu < GGML_MAX_N_THREADS; ++cpu) {
        if (params.cpumask[cpu]) cpus.push_back(cpu);
    }
    return cpus;
}

/// CPUs for thread `index`; empty: leave it alone. Strict pools deal them out one by one, to
/// the workers first and to the caller last.
CpuList cpus_for_thread(const ggml_threadpool_params& params, int index) {
    CpuList cpus = cpus_of_mask(params);
    if (cpus.empty() || !params.strict_cpu) return cpus;
    const int turn = index == 0 ? params.n_threads - 1 : index - 1;
    return {cpus[static_cast<std::size_t>(turn) % cpus.size()]};
}

int cpus_for_pool(const ggml_threadpool_params& params) {
    const auto masked = static_cast<int>(cpus_of_mask(params).size());
    return masked == 0 ? usable_cpus() : std::min(masked, usable_cpus());
}

void warn(const Result<>& result) {
    if (!result) log_line(GGML_LOG_LEVEL_WARN, "thread pool: ", result.error().message);
}

/// Pins the calling thread to what `choose` gives. A thread that cannot be pinned, be it for want
/// of memory, works all the same.
template <class Choose>
void pin_if_possible(const Choose& choose) noexcept {
    try {
        if (const CpuList cpus = choose(); !cpus.empty()) warn(pin_thread(cpus));
    } catch (const std::bad_alloc&) {
    }
}

}  // namespace

Result<> heddle::cpu::set_thread_priority(ggml_sched_priority priority) {
    if (priority == GGML_SCHED_PRIO_NORMAL) return ok();
#if defined(__unix__) || defined(__APPLE__)
    sched_param param{};
    int policy = SCHED_FIFO;
    switch (priority) {
        case GGML_SCHED_PRIO_MEDIUM:
            param.sched_priority = 40;
            break;
        case GGML_SCHED_PRIO_HIGH:
            param.sched_priority = 80;
            break;
        case GGML_SCHED_PRIO_REALTIME:
            param.sched_priority = 90;
            break;
        default:
#if defined(__linux__)
            policy = SCHED_BATCH;
#else
            policy = SCHED_OTHER;
#endif
            break;
    }
    const int error = pthread_setschedparam(pthread_self(), policy, &param);
    if (error == 0) return ok();
    return failure(Errc::device, "priority ", static_cast<int>(priority),
                   " is not granted: ", std::strerror(error));
#else
    return failure(Errc::unsupported, "threads have no priorities on this system");
#endif
}

// ---- making and ending -------------------------------------------------------------------------

ggml_threadpool::ggml_threadpool(const Params& params)
    : params_(params),
      cpus_(cpus_for_pool(params)),
      seats_(std::make_unique<Seat[]>(static_cast<std::size_t>(params.n_threads))),
      progress_(std::make_unique<Progress[]>(static_cast<std::size_t>(params.n_threads))),
      paused_(params.paused) {}

Result<std::unique_ptr<ggml_threadpool>> ggml_threadpool::make(const Params& params) {
    if (params.n_threads < 1 || params.n_threads > kMaxThreads) {
        return invalid("a thread pool of ", params.n_threads, " threads; 1 to ", kMaxThreads,
                       " are possible");
    }
    usable_cpus();  // counted before the caller is pinned below
    std::unique_ptr<ggml_threadpool> pool(new ggml_threadpool(params));
    HEDDLE_TRY(pool->start_threads());
    if (!params.paused) pool->settle_thread(0);
    return pool;
}

Result<> ggml_threadpool::start_threads() {
    for (int i = 1; i < size(); ++i) {
        try {
            seats_[static_cast<std::size_t>(i)].thread =
                std::thread([this, i] { work_of_thread(i); });
        } catch (const std::system_error& error) {
            stop_threads();
            return failure(Errc::out_of_memory, "thread pool: thread ", i, " of ", size(),
                           " could not be made: ", error.what());
        }
    }
    return ok();
}

ggml_threadpool::~ggml_threadpool() { stop_threads(); }

void ggml_threadpool::stop_threads() {
    stopping_.store(true);
    for (int i = 1; i < size(); ++i) {
        Seat& seat = seats_[static_cast<std::size_t>(i)];
        wake(seat);
        if (seat.thread.joinable()) seat.thread.join();
    }
}

void ggml_threadpool::settle_thread(int index) const noexcept {
    pin_if_possible([&] {
        warn(set_thread_priority(params_.prio));
        return cpus_for_thread(params_, index);
    });
}

void ggml_threadpool::pause() { paused_.store(true); }

void ggml_threadpool::resume() {
    if (!paused_.exchange(false)) return;
    for (int i = 1; i < size(); ++i) wake(seats_[static_cast<std::size_t>(i)]);
}

bool ggml_threadpool::try_enter() {
    if (entered_.exchange(true, std::memory_order_acquire)) return false;
    if (is_paused()) {
        resume();
        settle_thread(0);
    }
    return true;
}

void ggml_threadpool::leave() { entered_.store(false, std::memory_order_release); }

// ---- working -----------------------------------------------------------------------------------

void ggml_threadpool::run(Job job, int count) {
    assert(count >= 1 && count <= size() && "a job was planned for more threads than the pool has");
    job_ = job;
    expected_ += static_cast<std::uint32_t>(count);
    const std::uint64_t number = job_of(ticket_.load(std::memory_order_relaxed)) + 1;
    const std::uint64_t ticket = number << kCountBits | static_cast<std::uint64_t>(count);
    // Sequentially consistent, as is a thread's word that it sleeps: one of the two sees the other.
    ticket_.store(ticket);
    wake_after(0, count);
    expected_ -= static_cast<std::uint32_t>(take_task(0, number));
    if (has_finished()) return;
    expected_ -= static_cast<std::uint32_t>(take_tasks_left(0, ticket));
    wait_for_others(count);
}

/// A task can be claimed once for each job. The numbers only grow, so a thread that comes late,
/// with the ticket of a job long done, claims nothing; and one who did claim keeps the job from
/// ending.
bool ggml_threadpool::claim(int task, std::uint64_t job) {
    std::atomic<std::uint64_t>& last = seats_[static_cast<std::size_t>(task)].claimed;
    std::uint64_t seen = last.load(std::memory_order_relaxed);
    if (seen >= job) return false;
    return last.compare_exchange_strong(seen, job, std::memory_order_relaxed);
}

/// 1 if the task was done here, 0 if another thread has it.
int ggml_threadpool::take_task(int task, std::uint64_t job) {
    if (!claim(task, job)) return 0;
    job_.run(job_.context, task);
    return 1;
}

/// Tasks that no thread has begun, those after `index` first; how many there were.
int ggml_threadpool::take_tasks_left(int index, std::uint64_t ticket) {
    const std::uint64_t number = job_of(ticket);
    const int count = count_of(ticket);
    int finished = 0;
    for (int task = index + 1; task < count; ++task) finished += take_task(task, number);
    for (int task = 0; task < std::min(index, count); ++task) finished += take_task(task, number);
    return finished;
}

/// Tells the caller.
void ggml_threadpool::report(int finished) {
    if (finished == 0) return;
    finished_.fetch_add(static_cast<std::uint32_t>(finished));
    if (caller_sleeps_.load()) finished_.notify_one();
}

/// What a thread does with a job that concerns it.
void ggml_threadpool::work_on(int index, std::uint64_t ticket) {
    report(take_task(index, job_of(ticket)));
    // The caller may have looked at this line meanwhile: fetched now, it is here for the next job.
    __builtin_prefetch(&seats_[static_cast<std::size_t>(index)].claimed, 1);
    help_after_a_moment(index, ticket);
}

void ggml_threadpool::help_after_a_moment(int index, std::uint64_t ticket) {
    const int count = count_of(ticket);
    // Of two tasks the other one is the caller's, who has begun it long since.
    if (count <= 2) return;
    const auto is_past = [&] { return ticket_.load(std::memory_order_relaxed) != ticket; };
    if (spin_until(is_past, is_crowded_by(count) ? 0 : kMomentUs)) return;
    report(take_tasks_left(index, ticket));
}

bool ggml_threadpool::has_finished() const {
    return finished_.load(std::memory_order_acquire) == expected_;
}

void ggml_threadpool::wait_for_others(int count) {
    const auto done = [this] { return has_finished(); };
    if (spin_until(done, spin_for_tasks_us(is_crowded_by(count)))) return;
    caller_sleeps_.store(true);
    for (std::uint32_t seen = finished_.load(); seen != expected_; seen = finished_.load()) {
        finished_.wait(seen);
    }
    caller_sleeps_.store(false, std::memory_order_relaxed);
}

void ggml_threadpool::wake(Seat& seat) {
    if (seat.sleeping.load() == 1 && seat.sleeping.exchange(0) == 1) seat.sleeping.notify_one();
}

void ggml_threadpool::wake_after(int index, int count) {
    const int first = index * kWakeFanOut + 1;
    for (int i = first; i < std::min(first + kWakeFanOut, count); ++i) {
        wake(seats_[static_cast<std::size_t>(i)]);
    }
}

std::uint64_t ggml_threadpool::wait_for_job(int index, std::uint64_t seen) {
    Seat& seat = seats_[static_cast<std::size_t>(index)];
    const auto concerns_us = [&](std::uint64_t ticket) {
        return ticket != seen && index < count_of(ticket);
    };
    // No thread spins on a CPU that others of the same job may need.
    const bool may_spin = index < cpus_ && !is_crowded_by(count_of(seen));
    const auto poll = may_spin ? static_cast<int>(std::min(params_.poll, kMostPoll)) : 0;
    while (!stopping_.load()) {
        const auto done = [&] {
            return concerns_us(ticket_.load(std::memory_order_acquire)) || is_paused() ||
                   stopping_.load(std::memory_order_relaxed);
        };
        spin_until(done, poll * kSpinPerPollUs);
        std::uint64_t ticket = ticket_.load(std::memory_order_acquire);
        if (concerns_us(ticket)) return ticket;
        seat.sleeping.store(1);
        ticket = ticket_.load();
        if (concerns_us(ticket) || stopping_.load()) {
            seat.sleeping.store(0);
            return ticket;
        }
        seat.sleeping.wait(1);
    }
    return seen;
}

void ggml_threadpool::work_of_thread(int index) {
    settle_thread(index);
    bool placed = false;
    std::uint64_t ticket = 0;
    for (;;) {
        ticket = wait_for_job(index, ticket);
        if (stopping_.load()) return;
        wake_after(index, count_of(ticket));
        if (!placed && numa_policy().is_numa()) {
            pin_if_possible([&] { return numa_policy().cpus_for(index); });
            placed = true;
        }
        work_on(index, ticket);
    }
}
