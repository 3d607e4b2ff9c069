#include "backends/cpu/execute.hpp"

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>

#include "backends/cpu/fusion.hpp"
#include "backends/cpu/kernels/fused/bound_steps.hpp"
#include "backends/cpu/numa.hpp"
#include "backends/cpu/pool_cache.hpp"
#include "ops/catalogue.hpp"

namespace heddle::cpu {
namespace {

/// The first failure of a run.
class FirstFailure {
public:
    void record(const Tensor& node, std::string message) {
        const std::lock_guard guard(lock_);
        if (is_there_.exchange(true, std::memory_order_relaxed)) return;
        node_ = &node;
        message_ = std::move(message);
    }

    bool is_there() const { return is_there_.load(std::memory_order_relaxed); }
    Error error() const {
        return invalid("node ", describe(*node_), ", ", describe_op_of(*node_), ": ", message_);
    }

private:
    std::atomic<bool> is_there_{false};
    std::mutex lock_;
    const Tensor* node_ = nullptr;
    std::string message_;
};

/// The barrier of the tasks of a step. One serves all steps of a run, one after the other, but for
/// those that are computed beside each other.
class StepGate final : public NodeGate {
public:
    explicit StepGate(FirstFailure& first) : failure_(first) {}

    void begin(const Tensor& node, int tasks, ThreadPool* pool) {
        node_ = &node;
        tasks_ = tasks;
        if (tasks > 1) {
            crowded_ = pool->is_crowded_by(tasks);
            progress = pool->progress();
            number = pool->new_number();
        }
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
        failure_.record(node, std::move(message));
    }

private:
    FirstFailure& failure_;
    const Tensor* node_ = nullptr;  ///< that is computed
    int tasks_ = 1;
    bool crowded_ = false;  ///< more tasks than CPUs
    alignas(64) std::atomic<int> arrived_{0};
    alignas(64) std::atomic<std::uint32_t> round_{0};
    alignas(64) std::atomic<std::int64_t> prepared_{0};
};

/// Steps that the threads of a pool compute between two barriers. Each that is beside the others
/// has a gate and scratch memory of its own.
struct ParallelRegion {
    Task task;  ///< of every task but for index and gate
    std::span<const Step> steps;
    std::array<std::optional<StepGate>, kMostBeside> gates;  ///< made when first needed

    static void run(void* context, int index) {
        ParallelRegion& region = *static_cast<ParallelRegion*>(context);
        Task task = region.task;
        task.index = index;
        auto left = region.steps;
        for (std::size_t number = 0; !left.empty(); ++number) {
            const std::size_t size = segment_size(left);
            StepGate& gate = *region.gates[number];
            task.gate = &gate;
            if (size == 1) {
                left[0].kernel->run(*left[0].node, task);
            } else {
                run_rows(left.first(size), task, gate);
            }
            task.scratch += scratch_of(left[0]);
            left = left.subspan(size);
        }
    }

    void start(ThreadPool* pool, FirstFailure& first) {
        task.count = steps[0].tasks;
        std::size_t used = 0;
        for (const Step& step : steps) {
            if (step.bond == Bond::rows) continue;
            if (!gates[used]) gates[used].emplace(first);
            gates[used++]->begin(*step.node, task.count, pool);
        }
        if (task.count == 1) {
            run(this, 0);
        } else {
            pool->run({run, this}, task.count);
        }
    }
};

}  // namespace

Result<> execute(const Plan& plan, const Means& means) {
    HEDDLE_TRY_ASSIGN(const PoolLease lease, lease_pool(plan.tasks, means.pool));
    ThreadPool* pool = lease.pool();
    const NumaGuard here;
    FirstFailure failed;
    ParallelRegion region{
        .task = {.scratch = means.scratch, .plain = means.plain}, .steps = {}, .gates = {}};
    std::span<const Step> left = plan.steps;
    while (!left.empty()) {
        region.steps = left.first(region_size(left));
        left = left.subspan(region.steps.size());
        if (region.steps[0].kernel != nullptr) region.start(pool, failed);
        if (failed.is_there()) return failed.error();
        if (means.abort.callback == nullptr) continue;
        for (const Step& step : region.steps) {
            if (!means.abort.says_stop()) continue;
            return failure(Errc::aborted, "the abort callback asked to stop after node ",
                           describe(*step.node));
        }
    }
    return ok();
}

}  // namespace heddle::cpu
