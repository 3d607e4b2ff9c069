#include "backends/cpu/execute.hpp"

#include <algorithm>
#include <array>
#include <mutex>

#include "backends/cpu/fusion.hpp"
#include "backends/cpu/kernels/fused/bound_steps.hpp"
#include "backends/cpu/numa.hpp"
#include "backends/cpu/pool_cache.hpp"
#include "ops/catalogue.hpp"

namespace heddle::cpu {
namespace {

/// Where the tasks of a step meet. One serves all steps of a run, one after the other, but for
/// those that are computed beside each other.
class StepGate final : public NodeGate {
public:
    void begin(const Tensor& node, int tasks, bool crowded) {
        node_ = &node;
        tasks_ = tasks;
        crowded_ = crowded;
        next_chunk.store(0, std::memory_order_relaxed);
        next_to_prepare.store(0, std::memory_order_relaxed);
        prepared_.store(0, std::memory_order_relaxed);
    }

    /// The last one to arrive lets the others go on, and is the only one who does not wait.
    void sync() override {
        const std::uint32_t round = round_.load(std::memory_order_acquire);
        if (arrived_.fetch_add(1, std::memory_order_acq_rel) == tasks_ - 1) {
            arrived_.store(0, std::memory_order_relaxed);
            round_.store(round + 1);
            round_.notify_all();
            return;
        }
        const auto passed = [&] { return round_.load(std::memory_order_acquire) != round; };
        if (spin_until(passed, spin_for_tasks_us(crowded_))) return;
        round_.wait(round);
    }

    void wait_for_prepared(std::int64_t count, std::int64_t all) override {
        std::int64_t prepared = prepared_.fetch_add(count, std::memory_order_acq_rel) + count;
        if (prepared == all) {
            if (count > 0) prepared_.notify_all();
            return;
        }
        const auto is_done = [&] {
            prepared = prepared_.load(std::memory_order_acquire);
            return prepared == all;
        };
        if (spin_until(is_done, spin_for_tasks_us(crowded_))) return;
        while (!is_done()) prepared_.wait(prepared);
    }

    void fail(std::string message) override { fail_in(*node_, std::move(message)); }

    void fail_in(const Tensor& node, std::string message) override {
        const std::lock_guard guard(lock_);
        if (failed_.exchange(true, std::memory_order_relaxed)) return;
        blamed_ = &node;
        message_ = std::move(message);
    }

    bool failed() const { return failed_.load(std::memory_order_relaxed); }
    Error error() const {
        return invalid("node ", describe(*blamed_), ", ", describe_op_of(*blamed_), ": ", message_);
    }

private:
    const Tensor* node_ = nullptr;  ///< that is computed
    int tasks_ = 1;
    bool crowded_ = false;  ///< more tasks than processors
    alignas(64) std::atomic<int> arrived_{0};
    alignas(64) std::atomic<std::uint32_t> round_{0};
    alignas(64) std::atomic<std::int64_t> prepared_{0};
    std::atomic<bool> failed_{false};
    std::mutex lock_;
    const Tensor* blamed_ = nullptr;  ///< the node that failed
    std::string message_;
};

/// Steps that the threads of a pool compute in one meeting. Each that is beside the others has a
/// gate and scratch memory of its own.
struct Meeting {
    std::span<const Step> steps;
    std::span<StepGate> gates;
    Task task;  ///< of every task but for index and gate

    static void run(void* context, int index) {
        const Meeting& meeting = *static_cast<const Meeting*>(context);
        Task task = meeting.task;
        task.index = index;
        std::size_t number = 0;
        for (auto left = meeting.steps; !left.empty(); ++number) {
            const std::size_t size = segment_size(left);
            run_bound(left.first(size), task, meeting.gates[number]);
            task.scratch += scratch_of(left[0]);
            left = left.subspan(size);
        }
    }
};

Result<> hold(Meeting& meeting, ThreadPool* pool) {
    const int tasks = meeting.steps[0].tasks;
    const bool crowded = tasks > 1 && pool->is_crowded_by(tasks);
    std::size_t used = 0;
    for (const Step& step : meeting.steps) {
        if (step.bond == Bond::none || step.bond == Bond::beside) {
            meeting.gates[used++].begin(*step.node, tasks, crowded);
        }
    }
    meeting.task.count = tasks;
    if (tasks == 1) {
        Meeting::run(&meeting, 0);
    } else {
        pool->run({Meeting::run, &meeting}, tasks);
    }
    for (const StepGate& gate : meeting.gates.first(used)) {
        if (gate.failed()) return gate.error();
    }
    return ok();
}

}  // namespace

Result<> execute(const Plan& plan, const Means& means) {
    HEDDLE_TRY_ASSIGN(const PoolLease lease, lease_pool(plan.tasks, means.pool));
    ThreadPool* pool = lease.pool();
    const NumaGuard here;
    std::array<StepGate, kMostBeside> gates;
    Meeting meeting{{}, gates, {.scratch = means.scratch, .plain = means.plain}};
    std::span<const Step> left = plan.steps;
    while (!left.empty()) {
        meeting.steps = left.first(meeting_size(left));
        left = left.subspan(meeting.steps.size());
        if (meeting.steps[0].kernel != nullptr) HEDDLE_TRY(hold(meeting, pool));
        for (const Step& step : meeting.steps) {
            if (!means.abort.says_stop()) continue;
            return failure(Errc::aborted, "the abort callback asked to stop after node ",
                           describe(*step.node));
        }
    }
    return ok();
}

}  // namespace heddle::cpu
