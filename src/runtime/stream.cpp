#include "runtime/stream.hpp"

#include "core/graph_plan.hpp"
#include "core/last_error.hpp"
#include "heddle/backend/reserve.h"
#include "ops/catalogue.hpp"
#include "runtime/contained.hpp"
#include "runtime/device.hpp"
#include "runtime/in_use.hpp"

namespace heddle {
namespace {

/// Plans are the backend's if it can make, run and release them; otherwise ours.
bool has_plans(const Stream& stream) {
    return stream.iface.graph_plan_create != nullptr && stream.iface.graph_plan_free != nullptr &&
           stream.iface.graph_plan_compute != nullptr;
}

/// What the backend answered; with its reason if it has told one.
Result<> answer(Status status, const Listener& listener, std::string_view what) {
    auto result = from_status(status, what);
    if (result || !listener.heard()) return result;
    return failure(result.error().code, result.error().message, ": ", last_sentence());
}

/// Where to look if the backend does not say which node failed: the first and the last.
std::string nodes_text(const Graph& graph) {
    const auto node = [&](int i) -> std::string {
        if (graph.nodes[i] == nullptr) return "NULL";
        return text(describe_op_of(*graph.nodes[i]), " '", name_of(*graph.nodes[i]), '\'');
    };
    if (graph.n_nodes < 1) return {};
    const int last = graph.n_nodes - 1;
    return text(" (", node(0), last > 0 ? " to " : "", last > 0 ? node(last) : std::string(), ')');
}

GraphPlan* our_plan(PlanHandle plan) { return static_cast<GraphPlan*>(plan); }

}  // namespace

const char* name_of(Stream& stream) {
    const char* name = stream.iface.get_name != nullptr ? stream.iface.get_name(&stream) : nullptr;
    return name != nullptr ? name : "(unnamed)";
}

void free_stream(Stream* stream) noexcept {
    if (stream == nullptr || stream->iface.free == nullptr) return;
    contained([&] { stream->iface.free(stream); });
}

Result<Device*> device_of(Stream& stream) {
    if (stream.device != nullptr) return stream.device;
    return invalid("stream '", name_of(stream), "' belongs to no device");
}

Result<BufferType*> default_buffer_type(Stream& stream) {
    HEDDLE_TRY_ASSIGN(Device* const device, device_of(stream));
    return buffer_type_of(*device);
}

void synchronize(Stream& stream) {
    if (stream.iface.synchronize != nullptr) stream.iface.synchronize(&stream);
}

Result<> finish(Stream& stream) {
    if (stream.iface.synchronize == nullptr) return ok();
    const Listener listener;
    stream.iface.synchronize(&stream);
    if (!listener.heard()) return ok();
    return listener.outcome("waiting for stream '", name_of(stream), '\'');
}

namespace {

/// `compute_async` for those who know that the stream is theirs.
Result<> submit(Stream& stream, Graph& graph) {
    if (stream.iface.graph_compute == nullptr) {
        return failure(Errc::unsupported, "stream '", name_of(stream), "' cannot compute graphs");
    }
    const Listener listener;
    const Status status = stream.iface.graph_compute(&stream, &graph);
    if (status == GGML_STATUS_SUCCESS) return ok();
    return answer(status, listener,
                  text("computing ", graph.n_nodes, " nodes on stream '", name_of(stream), '\'',
                       nodes_text(graph)));
}

}  // namespace

Result<> compute_async(Stream& stream, Graph& graph) {
    const StreamUse use(stream);
    HEDDLE_TRY(use.check());
    return submit(stream, graph);
}

namespace {

/// What ended the work of a stream. Waiting for it gives a sentence and no status. A stream that
/// can be told to stop returns the status from its next graph, so an empty one is submitted to ask.
Error reason(Stream& stream, Error told) {
    if (stream.device == nullptr || stream.device->reg == nullptr) return told;
    if (find_function(*stream.device->reg, "ggml_backend_set_abort_callback") == nullptr) {
        return told;
    }
    Graph nothing{};
    const auto ended = submit(stream, nothing);
    if (!ended) told.code = ended.error().code;
    return told;
}

}  // namespace

Result<> compute(Stream& stream, Graph& graph) {
    const StreamUse use(stream);
    HEDDLE_TRY(use.check());
    auto computed = submit(stream, graph);
    auto finished = finish(stream);
    if (!computed) return computed;
    if (finished) return ok();
    return reason(stream, std::move(finished).error());
}

void optimize(Stream& stream, Graph& graph) {
    if (stream.iface.graph_optimize != nullptr) stream.iface.graph_optimize(&stream, &graph);
}

namespace {

heddle_stream_reserve_t reserve_of(Stream& stream) {
    if (stream.device == nullptr || stream.device->reg == nullptr) return nullptr;
    return reinterpret_cast<heddle_stream_reserve_t>(
        find_function(*stream.device->reg, HEDDLE_STREAM_RESERVE));
}

}  // namespace

bool has_reserve(Stream& stream) { return reserve_of(stream) != nullptr; }

Result<> reserve(Stream& stream, Graph& graph) {
    const auto take = reserve_of(stream);
    if (take == nullptr) return ok();
    const Listener listener;
    return answer(
        take(&stream, &graph), listener,
        text("reserving what ", graph.n_nodes, " nodes on stream '", name_of(stream), "' need"));
}

// ---- plans -------------------------------------------------------------------------------------

Result<OwnedPlan> make_plan(Stream& stream, const Graph& graph) {
    if (has_plans(stream)) {
        OwnedPlan plan(stream.iface.graph_plan_create(&stream, &graph), FreePlan{&stream});
        if (plan != nullptr) return plan;
        return failure(Errc::device, "stream '", name_of(stream), "' made no plan for a graph of ",
                       graph.n_nodes, " nodes");
    }
    HEDDLE_TRY_ASSIGN(auto plan, GraphPlan::make(graph));
    return OwnedPlan(plan.release(), FreePlan{&stream});
}

void free_plan(Stream& stream, PlanHandle plan) noexcept {
    if (plan == nullptr) return;
    if (has_plans(stream)) {
        contained([&] { stream.iface.graph_plan_free(&stream, plan); });
    } else {
        delete our_plan(plan);
    }
}

Result<> compute_plan(Stream& stream, PlanHandle plan) {
    if (plan == nullptr) return invalid("stream '", name_of(stream), "': the plan is NULL");
    if (!has_plans(stream)) return compute(stream, our_plan(plan)->graph());
    const StreamUse use(stream);
    HEDDLE_TRY(use.check());
    const Listener listener;
    const Status status = stream.iface.graph_plan_compute(&stream, plan);
    auto computed =
        status == GGML_STATUS_SUCCESS
            ? ok()
            : answer(status, listener, text("computing a plan on stream '", name_of(stream), '\''));
    auto finished = finish(stream);
    return computed ? std::move(finished) : std::move(computed);
}

Result<> update_plan(Stream& stream, OwnedPlan& plan, const Graph& graph) {
    if (plan == nullptr) return invalid("stream '", name_of(stream), "': the plan is NULL");
    if (!has_plans(stream)) return our_plan(plan.get())->update(graph);
    if (stream.iface.graph_plan_update != nullptr) {
        stream.iface.graph_plan_update(&stream, plan.get(), &graph);
        return ok();
    }
    HEDDLE_TRY_ASSIGN(plan, make_plan(stream, graph));
    return ok();
}

}  // namespace heddle
