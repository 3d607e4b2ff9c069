#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>

#include "backends/cpu/progress.hpp"
#include "core/error.hpp"
#include "ggml-cpu.h"
#include "simd/relax.hpp"

namespace heddle::cpu {

/// What the threads of a pool run together: `run(context, index)`, once for each index.
struct Job {
    void (*run)(void* context, int index) = nullptr;
    void* context = nullptr;
};

}  // namespace heddle::cpu

/// Threads that wait for work. The caller is thread 0 and works along; the others persist.
///
/// A job has as many tasks as its caller says. Thread i prefers task i, so that it meets data it
/// has seen before, but one that is done takes a task that is not begun: a sleeping thread is
/// never waited for unless the tasks wait for each other. Idle threads spin for a while, then
/// sleep.
///
/// Handing a cache line from one CPU to another may take as long as a small task, so lines
/// are laid out such that a job begins with one that goes to the threads, and ends with one that
/// comes back.
struct ggml_threadpool {
public:
    using Params = ggml_threadpool_params;

    /// Fails if the system gives no more threads. Applies priority and CPUs to the calling
    /// thread too, unless the pool starts paused.
    static heddle::Result<std::unique_ptr<ggml_threadpool>> make(const Params& params);

    ~ggml_threadpool();  ///< wakes, stops and joins the threads; no job may be running
    ggml_threadpool(const ggml_threadpool&) = delete;
    ggml_threadpool& operator=(const ggml_threadpool&) = delete;

    int size() const { return params_.n_threads; }  ///< threads, the caller's included

    /// Whether so many tasks are more than there are CPUs for: spinning then keeps others
    /// from working.
    bool is_crowded_by(int tasks) const { return tasks > cpus_; }

    void pause();   ///< threads sleep at once when they are idle
    void resume();  ///< threads spin again before they sleep
    bool is_paused() const { return paused_.load(std::memory_order_relaxed); }

    /// Claims the pool for one user, who must `leave` it; false if it has one. A paused pool
    /// resumes, and its priority and CPUs are applied to the calling thread.
    bool try_enter();
    void leave();

    /// One for each task of a job. What it says stays from job to job.
    heddle::cpu::Progress* progress() { return progress_.get(); }

    /// A number other than 0 that this pool has not given for long. For who has entered it.
    std::uint32_t new_number() { return ++last_number_ != 0 ? last_number_ : ++last_number_; }

    /// Runs tasks 0 .. count - 1 of `job` and returns when all are done. Needs `try_enter`;
    /// `count` is at most `size()`.
    void run(heddle::cpu::Job job, int count);

private:
    static constexpr std::uint64_t kCountBits = 16;
    static constexpr int kMaxThreads = (1 << kCountBits) - 1;

    /// A thread's place. What only its thread writes, as a rule, and what the caller looks at for
    /// every job, have a cache line each.
    struct Seat {
        /// The last job whose task of this number was taken.
        alignas(64) std::atomic<std::uint64_t> claimed{0};
        /// 1: its thread sleeps, or is about to.
        alignas(64) std::atomic<std::uint32_t> sleeping{0};
        std::thread thread;
    };

    /// A job's number and its count of tasks in one word, so that both are read together.
    static std::uint64_t job_of(std::uint64_t ticket) { return ticket >> kCountBits; }
    static int count_of(std::uint64_t ticket) {
        return static_cast<int>(ticket & ((1u << kCountBits) - 1));
    }

    explicit ggml_threadpool(const Params& params);
    heddle::Result<> start_threads();
    void stop_threads();
    void settle_thread(int index) const noexcept;

    void work_of_thread(int index);
    std::uint64_t wait_for_job(int index, std::uint64_t seen);
    bool claim(int task, std::uint64_t job);
    int take_task(int task, std::uint64_t job);
    int take_tasks_left(int index, std::uint64_t ticket);
    void report(int finished);
    void work_on(int index, std::uint64_t ticket);
    void help_after_a_moment(int index, std::uint64_t ticket);
    bool has_finished() const;
    void wait_for_others(int count);
    void wake_after(int index, int count);
    void wake(Seat& seat);

    const Params params_;
    const int cpus_;  ///< CPUs its threads may use
    std::unique_ptr<Seat[]> seats_;
    std::unique_ptr<heddle::cpu::Progress[]> progress_;
    std::atomic<bool> paused_;
    std::atomic<bool> stopping_{false};
    std::atomic<bool> entered_{false};

    std::atomic<bool> caller_sleeps_{false};  ///< or is about to

    /// The caller's own: what `finished_` comes to when its job is done.
    alignas(64) std::uint32_t expected_ = 0;
    std::uint32_t last_number_ = 0;

    // One cache line, so that who waits for a ticket has all of it. The job is written by the
    // caller between jobs, and read by those who have claimed a task of it.
    alignas(64) std::atomic<std::uint64_t> ticket_{0};
    heddle::cpu::Job job_;

    /// Tasks that others than the caller have finished, of all jobs so far; it wraps around.
    alignas(64) std::atomic<std::uint32_t> finished_{0};
};

namespace heddle::cpu {

using ThreadPool = ::ggml_threadpool;

/// Waits for `done()`: spins, at most for `spin_us` microseconds. Gives what `done` said last.
template <class Done>
bool spin_until(Done&& done, int spin_us);

/// Makes the calling thread as urgent as `priority` asks; the system may refuse.
Result<> set_thread_priority(ggml_sched_priority priority);

/// How long those who wait for others of the same job spin before they sleep.
inline int spin_for_tasks_us(bool crowded) { return crowded ? 1 : 50; }

}  // namespace heddle::cpu

#include <chrono>

template <class Done>
bool heddle::cpu::spin_until(Done&& done, int spin_us) {
    if (done()) return true;
    if (spin_us <= 0) return false;
    // The clock costs as much as a few rounds, and most waiting is over before it is asked.
    const auto is_done_soon = [&] {
        for (int i = 0; i < 32; ++i) {
            relax();
            if (done()) return true;
        }
        return false;
    };
    if (is_done_soon()) return true;
    using Clock = std::chrono::steady_clock;
    const auto deadline = Clock::now() + std::chrono::microseconds(spin_us);
    do {
        if (is_done_soon()) return true;
    } while (Clock::now() < deadline);
    return false;
}
