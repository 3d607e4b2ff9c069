// The scheduler: one graph over several streams.

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "capi/ggml_backend_boundary.hpp"
#include "capi/sched_settings.hpp"
#include "sched/scheduler.hpp"

using namespace heddle;
using capi::require;

namespace {

constexpr int kParallelSlots = 4;  ///< copies of inputs with `parallel`, as clients expect

/// A whole number from the environment; 0 if there is none.
int setting(const char* name) {
    const char* const text = std::getenv(name);
    int value = 0;
    if (text != nullptr) std::from_chars(text, text + std::strlen(text), value);
    return value;
}

Result<std::unique_ptr<Scheduler>> make_scheduler(ggml_backend_t* backends,
                                                  ggml_backend_buffer_type_t* bufts, int n_backends,
                                                  bool parallel, bool op_offload) {
    HEDDLE_TRY(require(backends, "scheduler", "the list of streams"));
    if (n_backends < 1) return invalid("scheduler: ", n_backends, " streams given");
    const auto count = static_cast<std::size_t>(n_backends);
    const Scheduler::Options options{.slots = parallel ? kParallelSlots : 1,
                                     .offload = op_offload,
                                     .debug = setting("GGML_SCHED_DEBUG"),
                                     .warn_realloc = setting("GGML_SCHED_DEBUG_REALLOC"),
                                     .cost_file = capi::default_cost_file()};
    return Scheduler::make({backends, count}, {bufts, bufts != nullptr ? count : 0}, options);
}

/// Both must be there before anything is done with them.
Result<> require_both(const Scheduler* sched, const void* other, std::string_view function,
                      std::string_view what) {
    HEDDLE_TRY(require(sched, function, "the scheduler"));
    return require(other, function, what);
}

using Use = InUse::Use;

/// Marks the scheduler as used for as long as the result lives; fails if it is in use already.
Result<Use> use_of(Scheduler& sched, std::string_view function) {
    auto use = sched.in_use.enter();
    if (use) [[likely]]
        return use;
    return std::move(use).error().within(text("scheduler: ", function));
}

}  // namespace

// ---- making one --------------------------------------------------------------------------------

ggml_backend_sched_t ggml_backend_sched_new(ggml_backend_t* backends,
                                            ggml_backend_buffer_type_t* bufts, int n_backends,
                                            size_t /*graph_size*/, bool parallel, bool op_offload) {
    return capi::made_or_null(
        [&] { return make_scheduler(backends, bufts, n_backends, parallel, op_offload); });
}

void ggml_backend_sched_free(ggml_backend_sched_t sched) { delete sched; }

// ---- memory ------------------------------------------------------------------------------------

void ggml_backend_sched_reserve_size(ggml_backend_sched_t sched, ggml_cgraph* measure_graph,
                                     size_t* sizes) {
    capi::done([&]() -> Result<> {
        HEDDLE_TRY(require_both(sched, measure_graph, "measurement of a graph", "the graph"));
        HEDDLE_TRY(require(sizes, "measurement of a graph", "the list of sizes"));
        HEDDLE_TRY_ASSIGN(const Use use, use_of(*sched, "measurement of a graph"));
        HEDDLE_TRY_ASSIGN(const std::vector<std::size_t> measured, sched->measure(*measure_graph));
        std::ranges::copy(measured, sizes);
        return ok();
    });
}

bool ggml_backend_sched_reserve(ggml_backend_sched_t sched, ggml_cgraph* measure_graph) {
    return capi::value_or_false([&]() -> Result<bool> {
        HEDDLE_TRY(require_both(sched, measure_graph, "reservation for a graph", "the graph"));
        HEDDLE_TRY_ASSIGN(const Use use, use_of(*sched, "reservation for a graph"));
        HEDDLE_TRY(sched->reserve(*measure_graph));
        return true;
    });
}

ggml_backend_buffer_type_t ggml_backend_sched_get_buffer_type(ggml_backend_sched_t sched,
                                                              ggml_backend_t backend) {
    return capi::made([&]() -> Result<BufferType*> {
        HEDDLE_TRY(require_both(sched, backend, "buffer type of a stream", "the stream"));
        const sched::RunnerId runner = sched->team().find(backend);
        if (runner == sched::kNoRunner) {
            return invalid("buffer type of a stream: ", ggml_backend_name(backend),
                           " is not one of the scheduler's");
        }
        return sched->team()[runner].type;
    });
}

size_t ggml_backend_sched_get_buffer_size(ggml_backend_sched_t sched, ggml_backend_t backend) {
    return capi::made([&]() -> Result<std::size_t> {
        HEDDLE_TRY(require_both(sched, backend, "size of a compute buffer", "the stream"));
        return sched->memory_of(backend);
    });
}

// ---- questions ---------------------------------------------------------------------------------

int ggml_backend_sched_get_n_backends(ggml_backend_sched_t sched) {
    return capi::made([&]() -> Result<int> {
        HEDDLE_TRY(require(sched, "number of streams", "the scheduler"));
        return static_cast<int>(sched->team().size());
    });
}

ggml_backend_t ggml_backend_sched_get_backend(ggml_backend_sched_t sched, int i) {
    return capi::made([&]() -> Result<Stream*> {
        HEDDLE_TRY(require(sched, "stream of a scheduler", "the scheduler"));
        const std::size_t count = sched->team().size();
        if (i < 0 || static_cast<std::size_t>(i) >= count) {
            return invalid("stream of a scheduler: number ", i, " of ", count);
        }
        return sched->team()[static_cast<sched::RunnerId>(i)].stream;
    });
}

int ggml_backend_sched_get_n_splits(ggml_backend_sched_t sched) {
    return capi::made([&]() -> Result<int> {
        HEDDLE_TRY(require(sched, "number of splits", "the scheduler"));
        return static_cast<int>(sched->split_count());
    });
}

int ggml_backend_sched_get_n_copies(ggml_backend_sched_t sched) {
    return capi::made([&]() -> Result<int> {
        HEDDLE_TRY(require(sched, "number of copies", "the scheduler"));
        return sched->slots();
    });
}

// ---- who computes what -------------------------------------------------------------------------

void ggml_backend_sched_set_tensor_backend(ggml_backend_sched_t sched, ggml_tensor* node,
                                           ggml_backend_t backend) {
    capi::done([&]() -> Result<> {
        HEDDLE_TRY(require_both(sched, node, "pin of a node", "the node"));
        HEDDLE_TRY(require(backend, "pin of a node", "the stream"));
        HEDDLE_TRY_ASSIGN(const Use use, sched->in_use.enter_again());
        return sched->pin(*node, backend);
    });
}

ggml_backend_t ggml_backend_sched_get_tensor_backend(ggml_backend_sched_t sched,
                                                     ggml_tensor* node) {
    return capi::made_or_null([&]() -> Result<Stream*> {
        HEDDLE_TRY(require_both(sched, node, "stream of a node", "the node"));
        return sched->stream_of(*node);
    });
}

void ggml_backend_sched_set_eval_callback(ggml_backend_sched_t sched,
                                          ggml_backend_sched_eval_callback callback,
                                          void* user_data) {
    capi::done([&]() -> Result<> {
        HEDDLE_TRY(require(sched, "callback for nodes", "the scheduler"));
        HEDDLE_TRY_ASSIGN(const Use use, sched->in_use.enter_again());
        sched->observe(callback, user_data);
        return ok();
    });
}

// ---- the life of a graph -----------------------------------------------------------------------

void ggml_backend_sched_split_graph(ggml_backend_sched_t sched, ggml_cgraph* graph) {
    capi::done([&]() -> Result<> {
        HEDDLE_TRY(require_both(sched, graph, "splitting of a graph", "the graph"));
        HEDDLE_TRY_ASSIGN(const Use use, use_of(*sched, "splitting of a graph"));
        return sched->split(*graph);
    });
}

bool ggml_backend_sched_alloc_graph(ggml_backend_sched_t sched, ggml_cgraph* graph) {
    return capi::value_or_false([&]() -> Result<bool> {
        HEDDLE_TRY(require_both(sched, graph, "allocation of a graph", "the graph"));
        HEDDLE_TRY_ASSIGN(const Use use, use_of(*sched, "allocation of a graph"));
        HEDDLE_TRY(sched->allocate(*graph));
        return true;
    });
}

ggml_status ggml_backend_sched_graph_compute(ggml_backend_sched_t sched, ggml_cgraph* graph) {
    return capi::status_of([&]() -> Result<> {
        HEDDLE_TRY(require_both(sched, graph, "graph compute", "the graph"));
        HEDDLE_TRY_ASSIGN(const Use use, use_of(*sched, "graph compute"));
        return sched->compute(*graph);
    });
}

ggml_status ggml_backend_sched_graph_compute_async(ggml_backend_sched_t sched, ggml_cgraph* graph) {
    return capi::status_of([&]() -> Result<> {
        HEDDLE_TRY(require_both(sched, graph, "graph compute", "the graph"));
        HEDDLE_TRY_ASSIGN(const Use use, use_of(*sched, "graph compute"));
        return sched->compute_async(*graph);
    });
}

/// A run that has failed meanwhile is no reason to stop the program: it is reported, and the next
/// run does without the device.
void ggml_backend_sched_synchronize(ggml_backend_sched_t sched) {
    if (sched == nullptr) {
        capi::done([&] { return require(sched, "synchronize", "the scheduler"); });
        return;
    }
    capi::status_of([&]() -> Result<> {
        HEDDLE_TRY_ASSIGN(const Use use, sched->in_use.enter_again());
        return sched->synchronize();
    });
}

void ggml_backend_sched_reset(ggml_backend_sched_t sched) {
    capi::done([&]() -> Result<> {
        HEDDLE_TRY(require(sched, "reset", "the scheduler"));
        HEDDLE_TRY_ASSIGN(const Use use, use_of(*sched, "reset"));
        sched->reset();
        return ok();
    });
}
