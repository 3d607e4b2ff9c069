#pragma once

#include <memory>

#include "core/error.hpp"
#include "core/graph.hpp"
#include "runtime/objects.hpp"
#include "runtime/owned.hpp"
#include "runtime/status.hpp"

namespace heddle {

/// Streams do their work in order. One thread at a time may use one; different streams of one
/// device may run in different threads. Computing on one that is computing already is refused.

const char* name_of(Stream& stream);  ///< never null

/// The device the stream belongs to; fails for a stream that has none.
Result<Device*> device_of(Stream& stream);

/// The buffer type its device prefers.
Result<BufferType*> default_buffer_type(Stream& stream);

/// Waits until all work is done; streams without the member have none left.
void synchronize(Stream& stream);

/// The same; fails with what the backend tells of meanwhile: work that went wrong since it was
/// queued.
Result<> finish(Stream& stream);

/// Queues the nodes of `graph`, or computes them at once.
Result<> compute_async(Stream& stream, Graph& graph);

/// Computes the nodes of `graph` and waits, also if queueing them failed.
Result<> compute(Stream& stream, Graph& graph);

/// Lets the backend reorder nodes before memory is planned; most do not.
void optimize(Stream& stream, Graph& graph);

/// Whether the stream needs more for a graph than the memory of its tensors.
bool has_reserve(Stream& stream);

/// Lets the stream take that (heddle/backend/reserve.h).
Result<> reserve(Stream& stream, Graph& graph);

// ---- plans: graphs made ready to run many times ------------------------------------------------

/// Belongs to the stream it was made for: the backend's own, or a GraphPlan where it has none.
using PlanHandle = ::ggml_backend_graph_plan_t;

void free_plan(Stream& stream, PlanHandle plan) noexcept;  ///< null is allowed

struct FreePlan {
    Stream* stream = nullptr;  ///< outlives the plan
    void operator()(PlanHandle plan) const noexcept { free_plan(*stream, plan); }
};
using OwnedPlan = std::unique_ptr<void, FreePlan>;

Result<OwnedPlan> make_plan(Stream& stream, const Graph& graph);

/// Computes the plan and waits.
Result<> compute_plan(Stream& stream, PlanHandle plan);

/// Fits the plan to `graph`. Its handle may be another one afterwards; after a failure it is as it
/// was.
Result<> update_plan(Stream& stream, OwnedPlan& plan, const Graph& graph);

}  // namespace heddle
