// Streams ("backends"), events, plans, and one stream checked against another.

#include "capi/ggml_backend_boundary.hpp"
#include "runtime/buffer_type.hpp"
#include "runtime/compare.hpp"
#include "runtime/device.hpp"
#include "runtime/event.hpp"
#include "runtime/graph_copy.hpp"
#include "runtime/stream.hpp"

using namespace heddle;
using capi::require;

// ---- the stream itself -------------------------------------------------------------------------

ggml_guid_t ggml_backend_guid(ggml_backend_t backend) {
    return backend != nullptr ? backend->guid : nullptr;
}

const char* ggml_backend_name(ggml_backend_t backend) {
    if (backend == nullptr) return "NULL";
    return capi::made_or_null([&]() -> Result<const char*> { return name_of(*backend); });
}

void ggml_backend_free(ggml_backend_t backend) { free_stream(backend); }

ggml_backend_dev_t ggml_backend_get_device(ggml_backend_t backend) {
    return capi::made_or_null([&]() -> Result<Device*> {
        HEDDLE_TRY(require(backend, "device of a stream", "the stream"));
        return backend->device;
    });
}

namespace {

Result<BufferType*> buffer_type_for(ggml_backend_t backend) {
    HEDDLE_TRY(require(backend, "buffer type of a stream", "the stream"));
    return default_buffer_type(*backend);
}

}  // namespace

ggml_backend_buffer_type_t ggml_backend_get_default_buffer_type(ggml_backend_t backend) {
    return capi::made_or_null([&] { return buffer_type_for(backend); });
}

ggml_backend_buffer_t ggml_backend_alloc_buffer(ggml_backend_t backend, size_t size) {
    return capi::made_or_null([&]() -> Result<OwnedBuffer> {
        HEDDLE_TRY_ASSIGN(BufferType* const type, buffer_type_for(backend));
        return allocate(*type, size);
    });
}

size_t ggml_backend_get_alignment(ggml_backend_t backend) {
    return capi::made([&]() -> Result<std::size_t> {
        HEDDLE_TRY_ASSIGN(BufferType* const type, buffer_type_for(backend));
        return alignment_of(*type);
    });
}

size_t ggml_backend_get_max_size(ggml_backend_t backend) {
    return capi::made([&]() -> Result<std::size_t> {
        HEDDLE_TRY_ASSIGN(BufferType* const type, buffer_type_for(backend));
        return max_size_of(*type);
    });
}

// ---- work --------------------------------------------------------------------------------------

void ggml_backend_synchronize(ggml_backend_t backend) {
    capi::handed_over([&]() -> Result<> {
        HEDDLE_TRY(require(backend, "synchronize", "the stream"));
        return finish(*backend);
    });
}

ggml_status ggml_backend_graph_compute(ggml_backend_t backend, ggml_cgraph* cgraph) {
    return capi::computed([&]() -> Result<> {
        HEDDLE_TRY(require(backend, "graph compute", "the stream"));
        HEDDLE_TRY(require(cgraph, "graph compute", "the graph"));
        return compute(*backend, *cgraph);
    });
}

ggml_status ggml_backend_graph_compute_async(ggml_backend_t backend, ggml_cgraph* cgraph) {
    return capi::computed([&]() -> Result<> {
        HEDDLE_TRY(require(backend, "graph compute", "the stream"));
        HEDDLE_TRY(require(cgraph, "graph compute", "the graph"));
        return compute_async(*backend, *cgraph);
    });
}

ggml_backend_graph_plan_t ggml_backend_graph_plan_create(ggml_backend_t backend,
                                                         ggml_cgraph* cgraph) {
    return capi::made_or_null([&]() -> Result<OwnedPlan> {
        HEDDLE_TRY(require(backend, "graph plan", "the stream"));
        HEDDLE_TRY(require(cgraph, "graph plan", "the graph"));
        return make_plan(*backend, *cgraph);
    });
}

void ggml_backend_graph_plan_free(ggml_backend_t backend, ggml_backend_graph_plan_t plan) {
    if (plan == nullptr) return;
    capi::done([&]() -> Result<> {
        HEDDLE_TRY(require(backend, "graph plan", "the stream"));
        free_plan(*backend, plan);
        return ok();
    });
}

ggml_status ggml_backend_graph_plan_compute(ggml_backend_t backend,
                                            ggml_backend_graph_plan_t plan) {
    return capi::computed([&]() -> Result<> {
        HEDDLE_TRY(require(backend, "graph plan", "the stream"));
        HEDDLE_TRY(require(plan, "graph plan", "the plan"));
        return compute_plan(*backend, plan);
    });
}

// ---- questions its device answers --------------------------------------------------------------

namespace {

template <class Question>
bool ask_device(ggml_backend_t backend, const void* subject, std::string_view what,
                Question&& question) {
    return capi::value_or_false([&]() -> Result<bool> {
        HEDDLE_TRY(require(backend, what, "the stream"));
        HEDDLE_TRY(require(subject, what, "what is asked about"));
        HEDDLE_TRY_ASSIGN(Device* const device, device_of(*backend));
        return question(*device);
    });
}

}  // namespace

bool ggml_backend_supports_op(ggml_backend_t backend, const ggml_tensor* op) {
    return ask_device(backend, op, "supported ops",
                      [&](Device& device) { return supports_op(device, *op); });
}

bool ggml_backend_supports_buft(ggml_backend_t backend, ggml_backend_buffer_type_t buft) {
    return ask_device(backend, buft, "supported buffer types",
                      [&](Device& device) { return supports_buffer_type(device, *buft); });
}

bool ggml_backend_offload_op(ggml_backend_t backend, const ggml_tensor* op) {
    return ask_device(backend, op, "offloading",
                      [&](Device& device) { return wants_offload(device, *op); });
}

// ---- events ------------------------------------------------------------------------------------

ggml_backend_event_t ggml_backend_event_new(ggml_backend_dev_t device) {
    // A device without events is no failure; one that has them and gives none is.
    if (device == nullptr || device->iface.event_new == nullptr) return nullptr;
    return capi::made_or_null([&]() -> Result<OwnedEvent> {
        if (OwnedEvent made = make_event(*device)) return made;
        return failure(Errc::device, "device '", name_of(*device), "' could not make an event");
    });
}

void ggml_backend_event_free(ggml_backend_event_t event) { free_event(event); }

void ggml_backend_event_record(ggml_backend_event_t event, ggml_backend_t backend) {
    capi::handed_over([&]() -> Result<> {
        HEDDLE_TRY(require(event, "event record", "the event"));
        HEDDLE_TRY(require(backend, "event record", "the stream"));
        return record(*event, *backend);
    });
}

void ggml_backend_event_wait(ggml_backend_t backend, ggml_backend_event_t event) {
    capi::handed_over([&]() -> Result<> {
        HEDDLE_TRY(require(backend, "event wait", "the stream"));
        HEDDLE_TRY(require(event, "event wait", "the event"));
        return wait_for(*backend, *event);
    });
}

void ggml_backend_event_synchronize(ggml_backend_event_t event) {
    capi::handed_over([&]() -> Result<> {
        HEDDLE_TRY(require(event, "event synchronize", "the event"));
        return synchronize(*event);
    });
}

// ---- one stream against another ----------------------------------------------------------------

struct ggml_backend_graph_copy ggml_backend_graph_copy(ggml_backend_t backend, ggml_cgraph* graph) {
    using CopyForC = struct ggml_backend_graph_copy;  // there is a function of this name
    return capi::value_or_report(
        [&]() -> Result<CopyForC> {
            HEDDLE_TRY(require(backend, "graph copy", "the stream"));
            HEDDLE_TRY(require(graph, "graph copy", "the graph"));
            HEDDLE_TRY_ASSIGN(GraphCopy copy, copy_graph_to(*backend, *graph));
            return CopyForC{.buffer = copy.buffer.release(),
                            .ctx_allocated = copy.tensors.release(),
                            .ctx_unallocated = copy.views.release(),
                            .graph = copy.graph};
        },
        CopyForC{});
}

void ggml_backend_graph_copy_free(struct ggml_backend_graph_copy copy) {
    free_buffer(copy.buffer);
    destroy_context(copy.ctx_allocated);
    destroy_context(copy.ctx_unallocated);
}

bool ggml_backend_compare_graph_backend(ggml_backend_t backend1, ggml_backend_t backend2,
                                        ggml_cgraph* graph, ggml_backend_eval_callback callback,
                                        void* user_data, const ggml_tensor* const* test_nodes,
                                        size_t num_test_nodes) {
    return capi::value_or_false([&]() -> Result<bool> {
        HEDDLE_TRY(require(backend1, "graph comparison", "the first stream"));
        HEDDLE_TRY(require(backend2, "graph comparison", "the second stream"));
        HEDDLE_TRY(require(graph, "graph comparison", "the graph"));
        if (callback == nullptr) return invalid("graph comparison: the callback is NULL");
        if (num_test_nodes > 0) {
            HEDDLE_TRY(require(test_nodes, "graph comparison", "the list of nodes"));
        }
        HEDDLE_TRY(compare_streams(
            *backend1, *backend2, *graph, {test_nodes, num_test_nodes}, [&](const NodePair& pair) {
                return callback(pair.index, pair.first, pair.second, user_data);
            }));
        return true;
    });
}
