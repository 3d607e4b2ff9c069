#include "backends/cpu/kernels/fused/bound_steps.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "backends/cpu/kernels/fused/cut.hpp"

namespace heddle::cpu {
namespace {

/// The gate of a part that one task computes alone.
class SoloGate final : public Gate {
public:
    SoloGate(const Tensor& node, NodeGate& outer) : node_(node), outer_(outer) {}

    void sync() override {}
    void wait_for_prepared(std::int64_t, std::int64_t) override {}
    void fail(std::string message) override { outer_.fail_in(node_, std::move(message)); }

private:
    const Tensor& node_;
    NodeGate& outer_;
};

void run_alone(const Step& step, const Tensor& part, const Task& task, NodeGate& outer) {
    SoloGate gate(*step.node, outer);
    step.kernel->run(part, {.scratch = task.scratch, .gate = &gate, .plain = task.plain});
}

}  // namespace

void run_rows(std::span<const Step> steps, const Task& task, NodeGate& gate) {
    std::array<std::optional<Part>, kMostBound> parts;
    for (std::size_t i = 0; i < steps.size(); ++i) {
        parts[i].emplace(*steps[i].node, cut_of(*steps[i].node));
    }
    Task own = task;
    own.scratch += steps[0].scratch / static_cast<std::size_t>(task.count) *
                   static_cast<std::size_t>(task.index);
    const Range share = task.share(parts[0]->units());
    for (std::int64_t begin = share.begin; begin < share.end; begin += steps[0].units) {
        const Range now{begin, std::min(begin + steps[0].units, share.end)};
        for (std::size_t i = 0; i < steps.size(); ++i) {
            run_alone(steps[i], parts[i]->at(now), own, gate);
        }
    }
}

}  // namespace heddle::cpu
