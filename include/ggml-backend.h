/// Devices, the memory they have, the streams that compute on them, and the scheduler over all.
///
/// A registration ("reg") offers devices. A device offers buffer types ("buft"), makes buffers of
/// them, and starts streams (called backends here). Registrations, devices and buffer types live
/// until their plug-in is unloaded; what the program makes (buffers, streams, events, schedulers)
/// it releases, before that. Objects are compared by address. Unless said otherwise no argument may
/// be NULL.
#pragma once

#include "ggml-alloc.h"
#include "ggml.h"

/// Marks a function of a backend library.
///
/// `GGML_BACKEND_SHARED` says that these are shared libraries, `GGML_BACKEND_BUILD` that we are
/// building one.
#if !defined(GGML_BACKEND_SHARED)
#define GGML_BACKEND_API extern
#elif !defined(_WIN32) || defined(__MINGW32__)
#define GGML_BACKEND_API __attribute__((visibility("default"))) extern
#elif defined(GGML_BACKEND_BUILD)
#define GGML_BACKEND_API __declspec(dllexport) extern
#else
#define GGML_BACKEND_API __declspec(dllimport) extern
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ggml_backend_buffer_type* ggml_backend_buffer_type_t;  ///< A kind of memory.
typedef struct ggml_backend_buffer* ggml_backend_buffer_t;            ///< A piece of it.
typedef struct ggml_backend_event* ggml_backend_event_t;              ///< A point in a stream.
typedef struct ggml_backend* ggml_backend_t;                          ///< A stream of a device.
typedef void* ggml_backend_graph_plan_t;                              ///< A graph ready to run.
typedef struct ggml_backend_reg* ggml_backend_reg_t;                  ///< A registration.
typedef struct ggml_backend_device* ggml_backend_dev_t;               ///< A device.

// ------------------------------------------------------------------------------------------------
// Buffer types

/// Name, such as "CPU" or "CUDA0".
GGML_API const char* ggml_backend_buft_name(ggml_backend_buffer_type_t buft);

/// A buffer of at least `size` bytes, which the caller owns; NULL without memory. Size 0 gives a
/// dummy that holds nothing, to ask "what if a tensor were here".
GGML_API ggml_backend_buffer_t ggml_backend_buft_alloc_buffer(ggml_backend_buffer_type_t buft,
                                                              size_t size);

/// Alignment of tensors in bytes, a power of two.
GGML_API size_t ggml_backend_buft_get_alignment(ggml_backend_buffer_type_t buft);

/// Bytes of the largest buffer that can be had; SIZE_MAX if there is no limit.
GGML_API size_t ggml_backend_buft_get_max_size(ggml_backend_buffer_type_t buft);

/// Bytes to reserve for `tensor`: its own and what the device wants behind them.
GGML_API size_t ggml_backend_buft_get_alloc_size(ggml_backend_buffer_type_t buft,
                                                 const struct ggml_tensor* tensor);

/// Whether the processor can use tensor->data directly, in the ordinary layout.
GGML_API bool ggml_backend_buft_is_host(ggml_backend_buffer_type_t buft);

/// The device it belongs to; may be NULL.
GGML_API ggml_backend_dev_t ggml_backend_buft_get_device(ggml_backend_buffer_type_t buft);

// ------------------------------------------------------------------------------------------------
// Buffers

/// What a buffer is for; guides the scheduler.
enum ggml_backend_buffer_usage GGML_ENUM_INT {
    GGML_BACKEND_BUFFER_USAGE_ANY = 0,      ///< Anything.
    GGML_BACKEND_BUFFER_USAGE_WEIGHTS = 1,  ///< Weights: operations go where they are.
    GGML_BACKEND_BUFFER_USAGE_COMPUTE = 2,  ///< Results of a graph.
};

/// Name of the buffer's type.
GGML_API const char* ggml_backend_buffer_name(ggml_backend_buffer_t buffer);

/// Releases a buffer; its tensors must not be used any more. NULL is fine.
GGML_API void ggml_backend_buffer_free(ggml_backend_buffer_t buffer);

/// Its first address, perhaps on a device; NULL for a buffer without memory of its own.
GGML_API void* ggml_backend_buffer_get_base(ggml_backend_buffer_t buffer);

/// Its size in bytes.
GGML_API size_t ggml_backend_buffer_get_size(ggml_backend_buffer_t buffer);

/// Lets the buffer prepare `tensor`, which has just been placed in it. ggml_backend_tensor_alloc()
/// and ggml_backend_view_init() do that.
GGML_API enum ggml_status ggml_backend_buffer_init_tensor(ggml_backend_buffer_t buffer,
                                                          struct ggml_tensor* tensor);

/// Alignment of tensors in bytes.
GGML_API size_t ggml_backend_buffer_get_alignment(ggml_backend_buffer_t buffer);

/// Bytes of the largest buffer of this type.
GGML_API size_t ggml_backend_buffer_get_max_size(ggml_backend_buffer_t buffer);

/// Bytes to reserve for `tensor` in a buffer of this type.
GGML_API size_t ggml_backend_buffer_get_alloc_size(ggml_backend_buffer_t buffer,
                                                   const struct ggml_tensor* tensor);

/// Sets every byte to `value`.
GGML_API void ggml_backend_buffer_clear(ggml_backend_buffer_t buffer, uint8_t value);

/// Whether the processor can use its memory directly.
GGML_API bool ggml_backend_buffer_is_host(ggml_backend_buffer_t buffer);

/// Says what the buffer is for.
GGML_API void ggml_backend_buffer_set_usage(ggml_backend_buffer_t buffer,
                                            enum ggml_backend_buffer_usage usage);

/// What it is for.
GGML_API enum ggml_backend_buffer_usage ggml_backend_buffer_get_usage(ggml_backend_buffer_t buffer);

/// Its type.
GGML_API ggml_backend_buffer_type_t ggml_backend_buffer_get_type(ggml_backend_buffer_t buffer);

/// Drops what the buffer remembers about tensors placed in it, before they are placed anew.
GGML_API void ggml_backend_buffer_reset(ggml_backend_buffer_t buffer);

/// Places `tensor`, which has no memory yet, at `addr` inside `buffer`.
GGML_API enum ggml_status ggml_backend_tensor_alloc(ggml_backend_buffer_t buffer,
                                                    struct ggml_tensor* tensor, void* addr);

/// Gives a view the memory of the tensor it is a view of, which is placed already.
GGML_API enum ggml_status ggml_backend_view_init(struct ggml_tensor* tensor);

/// Memory of the processor: a buffer around `size` bytes at `ptr`, aligned to 32, which stay the
/// caller's.
GGML_API ggml_backend_buffer_t ggml_backend_cpu_buffer_from_ptr(void* ptr, size_t size);

/// Memory of the processor.
GGML_API ggml_backend_buffer_type_t ggml_backend_cpu_buffer_type(void);

// ------------------------------------------------------------------------------------------------
// Data
//
// Offsets and sizes are in bytes from the beginning of the tensor and must lie inside it. The
// blocking functions have finished on return; they do not wait for streams, so synchronize first
// what is still at work on the tensor. Any thread may call them.

/// Writes `size` bytes from `data` into the tensor.
GGML_API void ggml_backend_tensor_set(struct ggml_tensor* tensor, const void* data, size_t offset,
                                      size_t size);

/// Reads `size` bytes of the tensor into `data`.
GGML_API void ggml_backend_tensor_get(const struct ggml_tensor* tensor, void* data, size_t offset,
                                      size_t size);

/// Writes `n_copies` pieces of `size` bytes, `stride_tensor` bytes apart in the tensor and
/// `stride_data` bytes apart in `data`.
GGML_API void ggml_backend_tensor_set_2d(struct ggml_tensor* tensor, const void* data,
                                         size_t offset, size_t size, size_t n_copies,
                                         size_t stride_tensor, size_t stride_data);

/// Reads such pieces.
GGML_API void ggml_backend_tensor_get_2d(const struct ggml_tensor* tensor, void* data,
                                         size_t offset, size_t size, size_t n_copies,
                                         size_t stride_tensor, size_t stride_data);

/// Sets `size` bytes of the tensor to `value`.
GGML_API void ggml_backend_tensor_memset(struct ggml_tensor* tensor, uint8_t value, size_t offset,
                                         size_t size);

/// Copies a tensor to another one of the same type, extents and strides, on any device.
GGML_API void ggml_backend_tensor_copy(const struct ggml_tensor* src, struct ggml_tensor* dst);

/// ggml_backend_tensor_set() in the order of a stream: `data` must stay as it is until the stream
/// has been synchronized. `backend` is a stream of the device that holds the tensor.
GGML_API void ggml_backend_tensor_set_async(ggml_backend_t backend, struct ggml_tensor* tensor,
                                            const void* data, size_t offset, size_t size);

/// ggml_backend_tensor_get() in the order of a stream: `data` is there after it has been
/// synchronized.
GGML_API void ggml_backend_tensor_get_async(ggml_backend_t backend,
                                            const struct ggml_tensor* tensor, void* data,
                                            size_t offset, size_t size);

/// ggml_backend_tensor_set_2d() in the order of a stream.
GGML_API void ggml_backend_tensor_set_2d_async(ggml_backend_t backend, struct ggml_tensor* tensor,
                                               const void* data, size_t offset, size_t size,
                                               size_t n_copies, size_t stride_tensor,
                                               size_t stride_data);

/// ggml_backend_tensor_get_2d() in the order of a stream.
GGML_API void ggml_backend_tensor_get_2d_async(ggml_backend_t backend,
                                               const struct ggml_tensor* tensor, void* data,
                                               size_t offset, size_t size, size_t n_copies,
                                               size_t stride_tensor, size_t stride_data);

/// ggml_backend_tensor_copy() in the order of two streams: after all work of `backend_src` so far,
/// before all later work of `backend_dst`.
GGML_API void ggml_backend_tensor_copy_async(ggml_backend_t backend_src, ggml_backend_t backend_dst,
                                             const struct ggml_tensor* src,
                                             struct ggml_tensor* dst);

// ------------------------------------------------------------------------------------------------
// Streams ("backends")
//
// A stream does its work in order; streams run side by side. One thread at a time may use a stream.

/// Identity of the kind of backend; NULL for NULL.
GGML_API ggml_guid_t ggml_backend_guid(ggml_backend_t backend);

/// Name, such as "CPU" or "CUDA0"; "NULL" for NULL.
GGML_API const char* ggml_backend_name(ggml_backend_t backend);

/// Releases a stream. NULL is fine.
GGML_API void ggml_backend_free(ggml_backend_t backend);

/// The device it computes on.
GGML_API ggml_backend_dev_t ggml_backend_get_device(ggml_backend_t backend);

/// The buffer type its device prefers.
GGML_API ggml_backend_buffer_type_t ggml_backend_get_default_buffer_type(ggml_backend_t backend);

/// ggml_backend_buft_alloc_buffer() with that type.
GGML_API ggml_backend_buffer_t ggml_backend_alloc_buffer(ggml_backend_t backend, size_t size);

/// Alignment of tensors in that type.
GGML_API size_t ggml_backend_get_alignment(ggml_backend_t backend);

/// Bytes of the largest buffer of that type.
GGML_API size_t ggml_backend_get_max_size(ggml_backend_t backend);

/// Waits until all work of the stream is done.
GGML_API void ggml_backend_synchronize(ggml_backend_t backend);

/// Computes the nodes of a graph in order, and waits. All tensors have memory the device can use.
GGML_API enum ggml_status ggml_backend_graph_compute(ggml_backend_t backend,
                                                     struct ggml_cgraph* cgraph);

/// The same without waiting: done after ggml_backend_synchronize().
GGML_API enum ggml_status ggml_backend_graph_compute_async(ggml_backend_t backend,
                                                           struct ggml_cgraph* cgraph);

/// Prepares a graph to be run many times. Where the backend has no plans of its own, heddle keeps a
/// copy of the graph, which may then go away.
GGML_API ggml_backend_graph_plan_t ggml_backend_graph_plan_create(ggml_backend_t backend,
                                                                  struct ggml_cgraph* cgraph);

/// Releases a plan.
GGML_API void ggml_backend_graph_plan_free(ggml_backend_t backend, ggml_backend_graph_plan_t plan);

/// Runs a plan.
GGML_API enum ggml_status ggml_backend_graph_plan_compute(ggml_backend_t backend,
                                                          ggml_backend_graph_plan_t plan);

/// Whether the stream's device can compute `op`.
GGML_API bool ggml_backend_supports_op(ggml_backend_t backend, const struct ggml_tensor* op);

/// Whether the stream's device can use tensors in buffers of type `buft`.
GGML_API bool ggml_backend_supports_buft(ggml_backend_t backend, ggml_backend_buffer_type_t buft);

/// Whether the stream's device wants to compute `op` although its weights are in host memory.
GGML_API bool ggml_backend_offload_op(ggml_backend_t backend, const struct ggml_tensor* op);

// ------------------------------------------------------------------------------------------------
// Events
//
// An event that was never recorded counts as reached.

/// An event of `device`; NULL if it has none.
GGML_API ggml_backend_event_t ggml_backend_event_new(ggml_backend_dev_t device);

/// Releases an event. NULL is fine.
GGML_API void ggml_backend_event_free(ggml_backend_event_t event);

/// Moves the event to the end of what is queued on `backend` now.
GGML_API void ggml_backend_event_record(ggml_backend_event_t event, ggml_backend_t backend);

/// Waits until the event is reached.
GGML_API void ggml_backend_event_synchronize(ggml_backend_event_t event);

/// Makes later work of `backend` wait for the event. Does not wait itself.
GGML_API void ggml_backend_event_wait(ggml_backend_t backend, ggml_backend_event_t event);

// ------------------------------------------------------------------------------------------------
// Devices

/// Kinds of device.
enum ggml_backend_dev_type GGML_ENUM_INT {
    GGML_BACKEND_DEVICE_TYPE_CPU = 0,    ///< Processor, with the memory of the system.
    GGML_BACKEND_DEVICE_TYPE_GPU = 1,    ///< Graphics processor with memory of its own.
    GGML_BACKEND_DEVICE_TYPE_IGPU = 2,   ///< Graphics processor with the memory of the system.
    GGML_BACKEND_DEVICE_TYPE_ACCEL = 3,  ///< Helper of the processor, such as BLAS.
    GGML_BACKEND_DEVICE_TYPE_META = 4,  ///< Several devices as one; see ggml_backend_meta_device().
};

/// What a device can do.
struct ggml_backend_dev_caps {
    bool async;                 ///< Streams work while the program goes on.
    bool host_buffer;           ///< Offers host memory for fast transfers.
    bool buffer_from_host_ptr;  ///< Can use given host memory as a buffer.
    bool events;                ///< Offers events.
    bool mmap_support;          ///< Weights may be loaded from a mapped file.
};

/// All about a device. Texts live as long as the device.
struct ggml_backend_dev_props {
    const char* name;                   ///< Short and unique, such as "CUDA0".
    const char* description;            ///< For people, such as the model's name.
    size_t memory_free;                 ///< Free memory in bytes.
    size_t memory_total;                ///< Memory in bytes.
    enum ggml_backend_dev_type type;    ///< Kind of device.
    const char* device_id;              ///< Address on the bus, "0000:01:00.0"; NULL if unknown.
    struct ggml_backend_dev_caps caps;  ///< What it can do.
};

/// Short unique name, such as "CUDA0".
GGML_API const char* ggml_backend_dev_name(ggml_backend_dev_t device);

/// Name for people.
GGML_API const char* ggml_backend_dev_description(ggml_backend_dev_t device);

/// Free and total memory in bytes; both 0 if the device has none to speak of.
GGML_API void ggml_backend_dev_memory(ggml_backend_dev_t device, size_t* free, size_t* total);

/// Kind of device.
GGML_API enum ggml_backend_dev_type ggml_backend_dev_type(ggml_backend_dev_t device);

/// Fills `props`.
GGML_API void ggml_backend_dev_get_props(ggml_backend_dev_t device,
                                         struct ggml_backend_dev_props* props);

/// The registration that offers it; NULL for a device of ggml_backend_meta_device().
GGML_API ggml_backend_reg_t ggml_backend_dev_backend_reg(ggml_backend_dev_t device);

/// Starts a stream, which the caller owns; NULL if that fails. `params` is for the device and may
/// be NULL.
GGML_API ggml_backend_t ggml_backend_dev_init(ggml_backend_dev_t device, const char* params);

/// The buffer type it prefers.
GGML_API ggml_backend_buffer_type_t ggml_backend_dev_buffer_type(ggml_backend_dev_t device);

/// Host memory for fast transfers; NULL if it has none.
GGML_API ggml_backend_buffer_type_t ggml_backend_dev_host_buffer_type(ggml_backend_dev_t device);

/// A buffer around host memory, which stays the caller's; NULL if the device cannot do that. No
/// tensor in it will be larger than `max_tensor_size` bytes.
GGML_API ggml_backend_buffer_t ggml_backend_dev_buffer_from_host_ptr(ggml_backend_dev_t device,
                                                                     void* ptr, size_t size,
                                                                     size_t max_tensor_size);

/// Whether it can compute `op`, given its types, extents, strides and the buffers of its sources.
GGML_API bool ggml_backend_dev_supports_op(ggml_backend_dev_t device, const struct ggml_tensor* op);

/// Whether it can use tensors in buffers of type `buft`.
GGML_API bool ggml_backend_dev_supports_buft(ggml_backend_dev_t device,
                                             ggml_backend_buffer_type_t buft);

/// Whether it wants to compute `op` although its weights are in host memory.
GGML_API bool ggml_backend_dev_offload_op(ggml_backend_dev_t device, const struct ggml_tensor* op);

// ------------------------------------------------------------------------------------------------
// Registrations

/// Name, such as "CPU" or "CUDA".
GGML_API const char* ggml_backend_reg_name(ggml_backend_reg_t reg);

/// Number of its devices.
GGML_API size_t ggml_backend_reg_dev_count(ggml_backend_reg_t reg);

/// Device number `index`.
GGML_API ggml_backend_dev_t ggml_backend_reg_dev_get(ggml_backend_reg_t reg, size_t index);

/// A function of the backend's own by name, to be cast to its type; NULL if it has none of that
/// name.
GGML_API void* ggml_backend_reg_get_proc_address(ggml_backend_reg_t reg, const char* name);

/// A fact about a backend; arrays of them end with a NULL name.
struct ggml_backend_feature {
    const char* name;   ///< What, such as "AVX2".
    const char* value;  ///< "1" or a number.
};

/// "ggml_backend_comm_init": joins streams for sums over devices; NULL if it cannot.
typedef void* (*ggml_backend_comm_init_t)(ggml_backend_t* backends, size_t n_backends);

/// "ggml_backend_comm_free": releases what comm_init made.
typedef void (*ggml_backend_comm_free_t)(void* comm_ctx);

/// "ggml_backend_comm_allreduce_tensor": replaces each tensor, one per stream, by the sum of all;
/// false if it cannot.
typedef bool (*ggml_backend_comm_allreduce_tensor_t)(void* comm_ctx, struct ggml_tensor** tensors);

/// "ggml_backend_split_buffer_type": a buffer type that spreads rows of matrices over devices.
typedef ggml_backend_buffer_type_t (*ggml_backend_split_buffer_type_t)(int main_device,
                                                                       const float* tensor_split);

/// "ggml_backend_set_n_threads": number of threads of a stream.
typedef void (*ggml_backend_set_n_threads_t)(ggml_backend_t backend, int n_threads);

/// "ggml_backend_dev_get_extra_bufts": further buffer types for weights, ending with NULL; may be
/// NULL.
typedef ggml_backend_buffer_type_t* (*ggml_backend_dev_get_extra_bufts_t)(
    ggml_backend_dev_t device);

/// "ggml_backend_set_abort_callback": who is asked whether to stop.
typedef void (*ggml_backend_set_abort_callback_t)(ggml_backend_t backend,
                                                  ggml_abort_callback abort_callback,
                                                  void* abort_callback_data);

/// "ggml_backend_get_features": facts about the backend.
typedef struct ggml_backend_feature* (*ggml_backend_get_features_t)(ggml_backend_reg_t reg);

// ------------------------------------------------------------------------------------------------
// The registry: all registrations and devices of the process

/// Adds a registration and its devices; one that is known already, or NULL, is ignored.
GGML_API void ggml_backend_register(ggml_backend_reg_t reg);

/// Adds a device; one that is known already is ignored.
GGML_API void ggml_backend_device_register(ggml_backend_dev_t device);

/// Number of registrations.
GGML_API size_t ggml_backend_reg_count(void);

/// Registration number `index`.
GGML_API ggml_backend_reg_t ggml_backend_reg_get(size_t index);

/// The registration of that name, upper or lower case; NULL if there is none.
GGML_API ggml_backend_reg_t ggml_backend_reg_by_name(const char* name);

/// Number of devices.
GGML_API size_t ggml_backend_dev_count(void);

/// Device number `index`.
GGML_API ggml_backend_dev_t ggml_backend_dev_get(size_t index);

/// The device of that name, upper or lower case; NULL if there is none.
GGML_API ggml_backend_dev_t ggml_backend_dev_by_name(const char* name);

/// The first device of that kind; NULL if there is none.
GGML_API ggml_backend_dev_t ggml_backend_dev_by_type(enum ggml_backend_dev_type type);

/// A stream of the device of that name; NULL if there is none or it does not start.
GGML_API ggml_backend_t ggml_backend_init_by_name(const char* name, const char* params);

/// A stream of the first device of that kind; NULL if there is none or it does not start.
GGML_API ggml_backend_t ggml_backend_init_by_type(enum ggml_backend_dev_type type,
                                                  const char* params);

/// A stream of the first graphics processor, else of the processor; NULL if there is neither.
GGML_API ggml_backend_t ggml_backend_init_best(void);

/// Loads a plug-in from a file (UTF-8 path) and registers it; NULL if that fails.
GGML_API ggml_backend_reg_t ggml_backend_load(const char* path);

/// Removes a registration and its devices, and unloads its plug-in. Nothing of it may be in use.
GGML_API void ggml_backend_unload(ggml_backend_reg_t reg);

/// Loads the best plug-in of each known backend from the usual places.
GGML_API void ggml_backend_load_all(void);

/// The same from one folder; NULL means the usual places.
GGML_API void ggml_backend_load_all_from_path(const char* dir_path);

// ------------------------------------------------------------------------------------------------
// Scheduler: one graph over several streams
//
// It decides which stream runs each node, copies data between them, and plans the memory. Use:
// reserve with the largest graph; then for each graph ggml_backend_sched_reset(),
// ggml_backend_sched_alloc_graph(), write the inputs, ggml_backend_sched_graph_compute(). One
// thread at a time.
//
// Graphs stay as they are: tensors get memory, sources, flags and order are not touched. A graph
// that is the last one again, built anew or not, gets the last one's decisions and memory without
// any work. Whatever fails leaves the scheduler without a graph and usable; the sentence is in
// heddle_last_error(). heddle/sched.h has more that it can do.

typedef struct ggml_backend_sched* ggml_backend_sched_t;  ///< A scheduler.

/// Asked about each node t before it runs (`ask` true: does the program want to see it?) and, if
/// so, told when it is done (`ask` false: go on?). Told no, the whole run ends, with
/// GGML_STATUS_ABORTED. Sources of the node may be copies, named "<stream>#<tensor>#<number>".
typedef bool (*ggml_backend_sched_eval_callback)(struct ggml_tensor* t, bool ask, void* user_data);

/// A scheduler over `n_backends` streams, most preferred first; the last one is of a CPU device.
/// NULL if they do not fit together.
///
/// `bufts` says which buffer type each stream computes in; NULL means the preferred ones. The
/// streams stay the caller's and must outlive the scheduler. `graph_size` is a hint for nodes and
/// leafs. `parallel` keeps several copies of the inputs, so that one graph can start while another
/// runs. `op_offload` lets devices take operations whose weights are in host memory.
GGML_API ggml_backend_sched_t ggml_backend_sched_new(ggml_backend_t* backends,
                                                     ggml_backend_buffer_type_t* bufts,
                                                     int n_backends, size_t graph_size,
                                                     bool parallel, bool op_offload);

/// Releases a scheduler and its compute buffers. NULL is fine.
GGML_API void ggml_backend_sched_free(ggml_backend_sched_t sched);

/// Writes the bytes that ggml_backend_sched_reserve() would need on each stream to `sizes`, without
/// getting memory; what streams share is counted at the first of them. Forgets the graph, and keeps
/// memory and pins.
GGML_API void ggml_backend_sched_reserve_size(ggml_backend_sched_t sched,
                                              struct ggml_cgraph* measure_graph, size_t* sizes);

/// Gets compute buffers for a graph as large as `measure_graph`; false without memory. Resets the
/// scheduler if it succeeds. The graph is not changed.
GGML_API bool ggml_backend_sched_reserve(ggml_backend_sched_t sched,
                                         struct ggml_cgraph* measure_graph);

/// Number of streams.
GGML_API int ggml_backend_sched_get_n_backends(ggml_backend_sched_t sched);

/// Stream number `i`.
GGML_API ggml_backend_t ggml_backend_sched_get_backend(ggml_backend_sched_t sched, int i);

/// Number of pieces the last graph was split into, also if it was only reserved.
GGML_API int ggml_backend_sched_get_n_splits(ggml_backend_sched_t sched);

/// Number of copies of each input.
GGML_API int ggml_backend_sched_get_n_copies(ggml_backend_sched_t sched);

/// The buffer type that `backend` computes in.
GGML_API ggml_backend_buffer_type_t ggml_backend_sched_get_buffer_type(ggml_backend_sched_t sched,
                                                                       ggml_backend_t backend);

/// Bytes of the compute buffer of `backend`; 0 if it shares that of a stream before it. Copies of
/// weights that are kept on a device are not counted.
GGML_API size_t ggml_backend_sched_get_buffer_size(ggml_backend_sched_t sched,
                                                   ggml_backend_t backend);

/// Decides that `backend` computes `node`, until the next reset. It must be able to; views go where
/// what they look at is, and are not affected.
GGML_API void ggml_backend_sched_set_tensor_backend(ggml_backend_sched_t sched,
                                                    struct ggml_tensor* node,
                                                    ggml_backend_t backend);

/// Who computes `node`; NULL if that is not decided.
GGML_API ggml_backend_t ggml_backend_sched_get_tensor_backend(ggml_backend_sched_t sched,
                                                              struct ggml_tensor* node);

/// Decides who computes what, without getting memory.
GGML_API void ggml_backend_sched_split_graph(ggml_backend_sched_t sched, struct ggml_cgraph* graph);

/// Decides that and gives every tensor its memory; then inputs can be written. False without
/// memory, and if a graph is allocated already.
GGML_API bool ggml_backend_sched_alloc_graph(ggml_backend_sched_t sched, struct ggml_cgraph* graph);

/// Computes the graph, allocating it if that was not done, and waits. While a graph is allocated it
/// is that one that runs, whichever is given. After a device has failed the next graph is computed
/// without it, until it works again.
GGML_API enum ggml_status ggml_backend_sched_graph_compute(ggml_backend_sched_t sched,
                                                           struct ggml_cgraph* graph);

/// The same without waiting: done after ggml_backend_sched_synchronize(). Inputs may be written for
/// the next run when it returns.
GGML_API enum ggml_status ggml_backend_sched_graph_compute_async(ggml_backend_sched_t sched,
                                                                 struct ggml_cgraph* graph);

/// Waits until all streams are done.
GGML_API void ggml_backend_sched_synchronize(ggml_backend_sched_t sched);

/// Forgets the graph and all decisions, pins too. Results keep their memory until the next graph
/// gets its own.
GGML_API void ggml_backend_sched_reset(ggml_backend_sched_t sched);

/// Sets who watches the nodes; NULL for nobody.
GGML_API void ggml_backend_sched_set_eval_callback(ggml_backend_sched_t sched,
                                                   ggml_backend_sched_eval_callback callback,
                                                   void* user_data);

// ------------------------------------------------------------------------------------------------
// Several devices as one

#define GGML_BACKEND_META_MAX_DEVICES 16  ///< Devices that can be joined.

/// How a tensor lies on the joined devices.
enum ggml_backend_meta_split_axis GGML_ENUM_INT {
    GGML_BACKEND_SPLIT_AXIS_0 = 0,          ///< Cut along dimension 0.
    GGML_BACKEND_SPLIT_AXIS_1 = 1,          ///< Cut along dimension 1.
    GGML_BACKEND_SPLIT_AXIS_2 = 2,          ///< Cut along dimension 2.
    GGML_BACKEND_SPLIT_AXIS_3 = 3,          ///< Cut along dimension 3.
    GGML_BACKEND_SPLIT_AXIS_MIRRORED = 10,  ///< A full copy on each.
    GGML_BACKEND_SPLIT_AXIS_PARTIAL = 11,   ///< An addend on each.
    GGML_BACKEND_SPLIT_AXIS_NONE = 98,      ///< Not decided; internal.
    GGML_BACKEND_SPLIT_AXIS_UNKNOWN = 99,   ///< Not known; internal.
};

/// Name of an axis: "0" to "3", "MIRRORED", "PARTIAL", "NONE", "UNKNOWN".
GGML_API const char* ggml_backend_meta_split_axis_name(
    enum ggml_backend_meta_split_axis split_axis);

/// How one tensor is cut.
///
/// Along the axis follow `n_segments` segments, each `nr` times; in each repetition the devices
/// follow one another with their share. All shares add up to the extent.
struct ggml_backend_meta_split_state {
    enum ggml_backend_meta_split_axis axis;          ///< Which way.
    int64_t ne[16 * GGML_BACKEND_META_MAX_DEVICES];  ///< Share: segment * devices + device.
    uint32_t nr[16];                                 ///< Repetitions of each segment.
    uint32_t n_segments;                             ///< Segments in use.
};

/// Says how weights and other permanent tensors are cut; the same answer for a tensor every time.
typedef struct ggml_backend_meta_split_state (*ggml_backend_meta_get_split_state_t)(
    const struct ggml_tensor* tensor, void* userdata);

/// A device that computes on `n_devs` devices at once, each on its share. The same arguments give
/// the same device; it is never released and not in the registry.
GGML_API ggml_backend_dev_t ggml_backend_meta_device(
    ggml_backend_dev_t* devs, size_t n_devs, ggml_backend_meta_get_split_state_t get_split_state,
    void* get_split_state_ud);

// ------------------------------------------------------------------------------------------------
// Checking one device against another

/// A graph copied to another device, with its data.
struct ggml_backend_graph_copy {
    ggml_backend_buffer_t buffer;          ///< Memory of the copies.
    struct ggml_context* ctx_allocated;    ///< Holds the copies and the graph.
    struct ggml_context* ctx_unallocated;  ///< Holds copies of views.
    struct ggml_cgraph* graph;             ///< The graph; NULL if copying failed.
};

/// Copies a graph with all its tensors to the device of `backend`; on failure all members are NULL.
GGML_API struct ggml_backend_graph_copy ggml_backend_graph_copy(ggml_backend_t backend,
                                                                struct ggml_cgraph* graph);

/// Releases a copy.
GGML_API void ggml_backend_graph_copy_free(struct ggml_backend_graph_copy copy);

/// Told the two results of a node; false stops.
typedef bool (*ggml_backend_eval_callback)(int node_index, struct ggml_tensor* t1,
                                           struct ggml_tensor* t2, void* user_data);

/// Computes a graph on two streams and shows `callback` the results: node by node, or, with
/// `num_test_nodes` above 0, the whole graph at once and then only the nodes listed. The graph has
/// memory for `backend1`. False if it cannot be copied to `backend2`.
GGML_API bool ggml_backend_compare_graph_backend(ggml_backend_t backend1, ggml_backend_t backend2,
                                                 struct ggml_cgraph* graph,
                                                 ggml_backend_eval_callback callback,
                                                 void* user_data,
                                                 const struct ggml_tensor* const* test_nodes,
                                                 size_t num_test_nodes);

#ifdef __cplusplus
}
#endif
