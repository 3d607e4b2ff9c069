#include <algorithm>
#include <vector>

#include "runtime/device.hpp"
#include "sched/explain/stages.hpp"

namespace heddle::sched {
namespace {

Speed assumed_speed(Device& device) {
    const auto type = type_of(device);
    if (type && *type == GGML_BACKEND_DEVICE_TYPE_GPU) return {2e13, 6e11, 4e-6};
    if (type && *type == GGML_BACKEND_DEVICE_TYPE_IGPU) return {2e12, 6e10, 4e-6};
    if (type && *type == GGML_BACKEND_DEVICE_TYPE_ACCEL) return {4e11, 3e10, 1e-6};
    return {2e11, 3e10, 1e-6};
}

/// A clock for each queue, and for the threads that submit.
class Forecast {
public:
    Forecast(const Scheduler::View& view, const CostModel& model, Schedule& schedule)
        : view_(view), model_(model), out_(schedule), queues_(view.team.size() * kQueues) {}

    void run() {
        for (std::size_t i = 0; i < out_.actions.size(); ++i) {
            const Action& action = view_.program.actions[i];
            auto& info = out_.actions[i];
            double& queue = queues_[number_of(action.runner, action.queue)];
            // What computes within the call holds up the thread that calls.
            const bool blocks = !view_.team[action.runner].is_async;
            double& thread = blocks && view_.program.wants_threads ? helper_ : caller_;
            double start = std::max(queue, thread);
            for (const int wait : info.waits) {
                start = std::max(start, out_.actions[static_cast<std::size_t>(wait)].predicted_end);
            }
            info.predicted_start = start;
            info.predicted_end = start + seconds(action, start);
            queue = info.predicted_end;
            if (blocks) thread = queue;
            out_.predicted_seconds = std::max(out_.predicted_seconds, queue);
        }
    }

private:
    double seconds(const Action& action, double start) {
        const auto i = static_cast<std::size_t>(action.index);
        switch (action.kind) {
            case Action::Kind::copy: {
                const Copy& copy = view_.splits.copies[i];
                const ConstantCache::Entry* const kept = view_.program.cached[i];
                if (kept != nullptr && kept->generation != 0) return 0;
                return model_.copy_seconds(copy.bytes, copy.from, copy.to);
            }
            case Action::Kind::write_back: {
                const auto& detour = out_.detours[i];
                const RunnerId from =
                    view_.splits.splits[static_cast<std::size_t>(detour.split)].runner;
                return model_.copy_seconds(detour.bytes, from, static_cast<RunnerId>(detour.to));
            }
            case Action::Kind::compute:
                break;
        }
        const Split& split = view_.splits.splits[i];
        double now = start;
        for (std::int32_t at = split.begin; at < split.end; ++at) {
            const TensorId id = view_.splits.order[static_cast<std::size_t>(at)];
            auto& node = out_.nodes[static_cast<std::size_t>(id)];
            node.predicted_start = now;
            now += model_.node_seconds(view_.index[id], split.runner);
            node.predicted_end = now;
        }
        return now - start;
    }

    const Scheduler::View& view_;
    const CostModel& model_;
    Schedule& out_;
    std::vector<double> queues_;
    double caller_ = 0, helper_ = 0;
};

/// Without a program there are no queues yet: the times are those that placing by cost goes by.
void forecast_placement(const Scheduler::View& view, const CostModel& model, Schedule& schedule) {
    Abilities abilities(view.index, view.team);
    const Prediction prediction = predict(abilities, view.placement, model);
    schedule.predicted_seconds = prediction.seconds;
    const auto nodes = view.index.nodes();
    for (std::size_t i = 0; i < nodes.size() && i < prediction.start.size(); ++i) {
        auto& node = schedule.nodes[static_cast<std::size_t>(nodes[i])];
        node.predicted_start = prediction.start[i];
        node.predicted_end = prediction.end[i];
    }
}

}  // namespace

CostModel assumed_costs(const Team& team) {
    CostModel model(team);
    const auto count = static_cast<RunnerId>(team.size());
    for (RunnerId i = 0; i < count; ++i) {
        if (team[i].device != nullptr) model.set_speed(i, assumed_speed(*team[i].device));
        for (RunnerId j = 0; j < count; ++j) model.set_link(i, j, {2e10, 8e-6});
    }
    return model;
}

void forecast(const Scheduler::View& view, const CostModel& model, Schedule& schedule) {
    if (view.program.actions.empty()) {
        forecast_placement(view, model, schedule);
    } else {
        Forecast(view, model, schedule).run();
    }
}

}  // namespace heddle::sched
