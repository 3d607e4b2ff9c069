#include "sched/explain/schedule.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "core/graph.hpp"
#include "core/tensor.hpp"
#include "ggml-impl.h"
#include "heddle/backend/trace.h"
#include "heddle/cpu.h"
#include "ops/catalogue.hpp"
#include "runtime/buffer_type.hpp"
#include "runtime/device.hpp"
#include "sched/explain/stages.hpp"
#include "sched/explain/words.hpp"

namespace heddle::sched {
namespace {

std::vector<std::int64_t> shape_of(const Tensor& tensor) {
    const Extents extents = extents_of(tensor);
    return {extents.begin(), extents.begin() + dimension_count(tensor)};
}

std::string_view name_of(Copy::Kind kind) {
    switch (kind) {
        case Copy::Kind::value:
            return "value";
        case Copy::Kind::input:
            return "input";
        case Copy::Kind::constant:
            return "constant";
    }
    return {};
}

std::string_view name_of(Action::Kind kind) {
    switch (kind) {
        case Action::Kind::copy:
            return "copy";
        case Action::Kind::compute:
            return "compute";
        case Action::Kind::write_back:
            return "write_back";
    }
    return {};
}

std::string_view name_of(Queue queue) { return kQueueNames[static_cast<std::size_t>(queue)]; }

/// How often each tensor of a graph is read, as backends look it up in a graph of theirs.
class UseCounts {
public:
    explicit UseCounts(const GraphIndex& index)
        : keys_(2 * index.size() + 1), counts_(keys_.size()) {
        used_.resize(ggml_bitset_size(keys_.size()));
        set_ = {keys_.size(), used_.data(), keys_.data()};
        const auto count = static_cast<TensorId>(index.size());
        for (TensorId id = 0; id < count; ++id) {
            ggml_hash_find_or_insert(&set_, const_cast<Tensor*>(&index[id]));
        }
        for (TensorId id = 0; id < count; ++id) {
            for (Tensor* source : index[id].src) {
                if (source != nullptr && ggml_hash_contains(&set_, source)) {
                    ++counts_[ggml_hash_find(&set_, source)];
                }
            }
        }
    }

    void lend_to(Graph& graph) {
        graph.use_counts = counts_.data();
        graph.visited_hash_set = set_;
    }

private:
    std::vector<Tensor*> keys_;
    std::vector<ggml_bitset_t> used_;
    std::vector<std::int32_t> counts_;
    ggml_hash_set set_{};
};

/// Reads a schedule off the stages' results.
class Explainer {
public:
    Explainer(const Scheduler::View& view, bool with_refusals)
        : view_(view), with_refusals_(with_refusals), uses_(view.index) {}

    Schedule run() {
        out_.policy = view_.by_cost ? "cost" : "rules";
        out_.overlaps_runs = view_.program.overlaps_runs;
        out_.uses_threads = view_.program.wants_threads;
        for (const Copy& copy : view_.splits.copies) {
            out_.slots = std::max(out_.slots, static_cast<int>(copy.stand_ins));
        }
        for (RunnerId i = 0; i <= view_.team.last(); ++i) add_device(i);
        const auto count = static_cast<TensorId>(view_.index.size());
        for (TensorId id = 0; id < count; ++id) {
            if (view_.index.is_node(id)) {
                add_node(id);
            } else {
                add_leaf(id);
            }
        }
        for (const Split& split : view_.splits.splits) {
            add_split(split);
            add_fused(split);
        }
        if (!view_.timings.empty()) add_device_times();
        for (std::size_t i = 0; i < view_.splits.copies.size(); ++i) add_copy(i);
        for (const Detour& detour : view_.splits.detours) add_detour(detour);
        for (const Action& action : view_.program.actions) add_action(action);
        for (const Timing& timing : view_.timings) add_timing(timing);
        add_spans();
        const CostModel model = view_.model != nullptr ? *view_.model : assumed_costs(view_.team);
        out_.cost_origin = model.origin;
        forecast(view_, model, out_);
        out_.memory = map_memory(view_, out_);
        for (const Hazard& hazard : view_.hazards) out_.hazards.push_back(hazard.text);
        return std::move(out_);
    }

private:
    /// Tensors that the caller gave no name are shown by their number.
    std::string label(TensorId id) const {
        if (id == kNoTensor) return {};
        std::string name(heddle::name_of(view_.index[id]));
        if (name.empty()) name.append("#").append(std::to_string(id));
        return name;
    }

    void add_device(RunnerId id) {
        const Runner& runner = view_.team[id];
        Schedule::DeviceInfo info;
        info.name = runner.name;
        info.is_async = runner.is_async;
        info.available = runner.available;
        if (runner.type != nullptr) info.memory_type = heddle::name_of(*runner.type);
        if (runner.device != nullptr) {
            info.device = heddle::name_of(*runner.device);
            info.description = description_of(*runner.device);
            const DeviceMemory memory = memory_of(*runner.device);
            info.free = memory.free, info.total = memory.total;
        }
        const auto i = static_cast<std::size_t>(id);
        if (i < view_.program.bytes.size()) info.planned = view_.program.bytes[i];
        out_.devices.push_back(std::move(info));
    }

    void add_node(TensorId id) {
        const Tensor& tensor = view_.index[id];
        const Choice& choice = view_.placement[id];
        Schedule::Node node;
        node.name = label(id);
        node.op = describe_op_of(tensor);
        node.type = heddle::name_of(tensor.type);
        node.shape = shape_of(tensor);
        node.size = byte_size(tensor);
        for (const auto source : view_.index.sources(id)) node.sources.push_back(source.tensor);
        node.device = choice.runner;
        node.rule = sched::name_of(choice.rule);
        node.because = label(choice.because);
        node.why = words::reason(choice.rule, node.because);
        if (with_refusals_ && !view_.index.is_view(id)) add_refusals(tensor, node);
        const Cost cost = cost_of(tensor);
        node.flops = cost.flops, node.bytes = cost.bytes;
        out_.nodes.push_back(std::move(node));
    }

    void add_refusals(const Tensor& tensor, Schedule::Node& node) {
        for (RunnerId i = 0; i <= view_.team.last(); ++i) {
            if (i == node.device) continue;
            std::string reason = objection(view_.team[i], tensor);
            if (!reason.empty()) node.declined.push_back({i, std::move(reason)});
        }
    }

    void add_leaf(TensorId id) {
        const Tensor& tensor = view_.index[id];
        const Choice& choice = view_.placement[id];
        out_.leafs.push_back({.name = label(id),
                              .type = std::string(heddle::name_of(tensor.type)),
                              .shape = shape_of(tensor),
                              .device = choice.home != kNoRunner ? choice.home : choice.runner,
                              .rule = std::string(sched::name_of(choice.rule)),
                              .size = byte_size(tensor)});
    }

    void add_split(const Split& split) {
        const auto number = static_cast<int>(out_.splits.size());
        Schedule::SplitInfo info{.device = split.runner, .nodes = {}, .copies = {}};
        for (std::int32_t at = split.begin; at < split.end; ++at) {
            const TensorId id = view_.splits.order[static_cast<std::size_t>(at)];
            info.nodes.push_back(id);
            out_.nodes[static_cast<std::size_t>(id)].split = number;
        }
        info.copies.assign(split.inputs.begin(), split.inputs.end());
        out_.splits.push_back(std::move(info));
    }

    /// Asks the device, where it answers such questions, what it computes together.
    void add_fused(const Split& split) {
        const Runner& runner = view_.team[split.runner];
        if (runner.device == nullptr || runner.device->reg == nullptr) return;
        const auto ask = reinterpret_cast<heddle_fused_with_t>(
            find_function(*runner.device->reg, "heddle_fused_with"));
        if (ask == nullptr || split.begin == split.end) return;
        const auto order = std::span(view_.splits.order)
                               .subspan(static_cast<std::size_t>(split.begin),
                                        static_cast<std::size_t>(split.end - split.begin));
        std::vector<Tensor*> nodes;
        for (const TensorId id : order) nodes.push_back(&view_.index[id]);
        Graph graph{};
        graph.nodes = nodes.data();
        graph.n_nodes = static_cast<int>(nodes.size());
        uses_.lend_to(graph);
        std::vector<int> with(nodes.size());
        if (!ask(runner.stream, &graph, with.data())) return;
        for (std::size_t i = 0; i < order.size(); ++i) {
            const TensorId first = order[static_cast<std::size_t>(with[i])];
            if (first == order[i]) continue;
            for (const TensorId id : {first, order[i]}) {
                out_.nodes[static_cast<std::size_t>(id)].with = first;
            }
        }
    }

    /// Asks the devices, where they answer, how long nodes of the last run took them. The last
    /// split of a stream is the last graph it was given.
    void add_device_times() {
        std::map<ggml_backend_t, int> later;
        for (auto split = view_.splits.splits.rbegin(); split != view_.splits.splits.rend();
             ++split) {
            const Runner& runner = view_.team[split->runner];
            if (runner.device == nullptr || runner.device->reg == nullptr) continue;
            const auto ask = reinterpret_cast<heddle_stream_times_t>(
                find_function(*runner.device->reg, HEDDLE_STREAM_TIMES));
            if (ask == nullptr || split->begin == split->end) continue;
            std::vector<double> seconds(static_cast<std::size_t>(split->end - split->begin));
            if (!ask(runner.stream, later[runner.stream]++, seconds.data(),
                     static_cast<int>(seconds.size()))) {
                continue;
            }
            for (std::size_t i = 0; i < seconds.size(); ++i) {
                const TensorId id = view_.splits.order[static_cast<std::size_t>(split->begin) + i];
                out_.nodes[static_cast<std::size_t>(id)].device_seconds = seconds[i];
            }
        }
    }

    void add_copy(std::size_t number) {
        const Copy& copy = view_.splits.copies[number];
        const bool planned = number < view_.program.cached.size();
        out_.copies.push_back({.tensor = label(copy.tensor),
                               .name = std::string(heddle::name_of(view_.splits.stand_in(copy, 0))),
                               .kind = std::string(name_of(copy.kind)),
                               .source = copy.tensor,
                               .from = copy.from,
                               .to = copy.to,
                               .split = copy.split,
                               .bytes = copy.bytes,
                               .kept = planned && view_.program.cached[number] != nullptr});
    }

    void add_detour(const Detour& detour) {
        out_.detours.push_back({.node = detour.node,
                                .split = detour.split,
                                .to = view_.placement[detour.node].home,
                                .bytes = byte_size(view_.index[detour.node])});
    }

    void add_action(const Action& action) {
        Schedule::ActionInfo info;
        info.kind = name_of(action.kind);
        info.queue = name_of(action.queue);
        info.device = action.runner;
        info.index = action.index;
        for (std::uint32_t i = action.first_wait; i < action.last_wait; ++i) {
            info.waits.push_back(view_.program.waits[i]);
        }
        int steps = 1;
        if (action.kind == Action::Kind::compute) {
            const Split& split = view_.splits.splits[static_cast<std::size_t>(action.index)];
            steps = std::max(1, split.end - split.begin);
        }
        info.first_step = out_.steps;
        out_.steps += steps;
        info.last_step = out_.steps - 1;
        out_.actions.push_back(std::move(info));
    }

    void add_timing(const Timing& timing) {
        const auto i = static_cast<std::size_t>(timing.action);
        if (i >= out_.actions.size()) return;  // of a graph before this one
        auto& action = out_.actions[i];
        if (!timing.known) return;  // the device did not note it
        action.measured = true;
        action.skipped = timing.skipped;
        action.measured_start = timing.start, action.measured_end = timing.end;
        out_.measured_seconds = std::max(out_.measured_seconds, timing.end);
    }

    /// What other processes did in the run, where a backend can tell.
    void add_spans() {
        if (view_.timings.empty()) return;
        std::set<const ggml_backend_reg*> asked;
        for (RunnerId i = 0; i <= view_.team.last(); ++i) {
            const Runner& runner = view_.team[i];
            if (runner.device == nullptr || runner.device->reg == nullptr) continue;
            const auto ask = reinterpret_cast<heddle_trace_spans_t>(
                find_function(*runner.device->reg, HEDDLE_TRACE_SPANS));
            if (ask == nullptr || !asked.insert(runner.device->reg).second) continue;
            ask([](const heddle_trace_span* span,
                   void* self) { static_cast<Explainer*>(self)->add_span(*span); },
                this);
        }
    }

    void add_span(const heddle_trace_span& span) {
        const double began = view_.timings.front().began;
        if (span.end + span.error < began) return;  // of a run before this one
        out_.spans.push_back({span.process, span.track, span.name, span.start - began,
                              span.end - began, span.error, span.transfer, span.sends});
    }

    const Scheduler::View& view_;
    bool with_refusals_;
    UseCounts uses_;
    Schedule out_;
};

}  // namespace

Result<Schedule> explain(Scheduler& scheduler, bool with_refusals) {
    HEDDLE_TRY_ASSIGN(const Scheduler::View view, scheduler.view());
    return Explainer(view, with_refusals).run();
}

}  // namespace heddle::sched
