#include "backends/cpu/execute.hpp"

#include <mutex>

#include "backends/cpu/numa.hpp"
#include "backends/cpu/pool_cache.hpp"
#include "ops/catalogue.hpp"

namespace heddle::cpu {
namespace {

/// Where the tasks of a step meet. One serves all steps of a run, one after the other.
class StepGate final : public Gate {
public:
    void begin(int tasks, bool crowded) {
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

    void fail(std::string message) override {
        const std::lock_guard guard(lock_);
        if (!failed_.exchange(true, std::memory_order_relaxed)) message_ = std::move(message);
    }

    bool failed() const { return failed_.load(std::memory_order_relaxed); }
    const std::string& message() const { return message_; }

private:
    int tasks_ = 1;
    bool crowded_ = false;  ///< more tasks than processors
    alignas(64) std::atomic<int> arrived_{0};
    alignas(64) std::atomic<std::uint32_t> round_{0};
    alignas(64) std::atomic<std::int64_t> prepared_{0};
    std::atomic<bool> failed_{false};
    std::mutex lock_;
    std::string message_;
};

/// One step as the threads of a pool see it.
struct SharedStep {
    const Step* step;
    Task task;  ///< of every task but for the index

    static void run(void* context, int index) {
        const SharedStep& shared = *static_cast<const SharedStep*>(context);
        Task task = shared.task;
        task.index = index;
        shared.step->kernel->run(*shared.step->node, task);
    }
};

}  // namespace

Result<> execute(const Plan& plan, const Means& means) {
    HEDDLE_TRY_ASSIGN(const PoolLease lease, lease_pool(plan.tasks, means.pool));
    ThreadPool* pool = lease.pool();
    const NumaGuard here;
    StepGate gate;
    const bool asks = means.abort.callback != nullptr;
    SharedStep shared{nullptr, {.scratch = means.scratch, .gate = &gate, .plain = means.plain}};
    for (const Step& step : plan.steps) {
        if (step.kernel != nullptr) {
            gate.begin(step.tasks, step.tasks > 1 && pool->is_crowded_by(step.tasks));
            shared.task.count = step.tasks;
            if (step.tasks == 1) {
                step.kernel->run(*step.node, shared.task);
            } else {
                shared.step = &step;
                pool->run({SharedStep::run, &shared}, step.tasks);
            }
            if (gate.failed()) {
                return invalid("node ", describe(*step.node), ", ", describe_op_of(*step.node),
                               ": ", gate.message());
            }
        }
        if (asks && means.abort.says_stop()) {
            return failure(Errc::aborted, "the abort callback asked to stop after node ",
                           describe(*step.node));
        }
    }
    return ok();
}

}  // namespace heddle::cpu
