#pragma once

#include <memory>

#include "core/error.hpp"
#include "core/graph.hpp"
#include "runtime/objects.hpp"
#include "runtime/status.hpp"

namespace heddle {

/// Streams do their work in order. One thread at a time may use one; different streams of one
/// device may run in different threads. Computing on one that is computing already is refused.

const char* name_of(Stream& stream);  ///< never null

/// Releases the stream through its table, the object included. Null is allowed.
void free_stream(Stream* stream) noexcept;

struct FreeStream {
    void operator()(Stream* stream) const noexcept { free_stream(stream); }
};
using OwnedStream = std::unique_ptr<Stream, FreeStream>;

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

Result<PlanHandle> make_plan(Stream& stream, const Graph& graph);
void free_plan(Stream& stream, PlanHandle plan) noexcept;  ///< null is allowed

/// Computes the plan and waits.
Result<> compute_plan(Stream& stream, PlanHandle plan);

/// Fits the plan to `graph`. Gives the handle to use from now on, which may be another one; after a
/// failure the old one is as it was.
Result<PlanHandle> update_plan(Stream& stream, PlanHandle plan, const Graph& graph);

}  // namespace heddle
