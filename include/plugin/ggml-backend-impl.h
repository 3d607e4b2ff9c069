/// The tables of functions that a backend fills in.
///
/// A backend makes these objects itself: the layouts are ABI. Tables are copied by value into each
/// object and always called through it, so a backend may replace single members afterwards. Members
/// are required unless their comment says "may be NULL". No function may throw, and none should
/// stop the program: log the reason and return NULL, false or a status.
#pragma once

#include "ggml-backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Version of everything in this header; the loader refuses plug-ins with another one.
#define GGML_BACKEND_API_VERSION 2

// ------------------------------------------------------------------------------------------------
// Buffer types

/// Functions of a buffer type.
struct ggml_backend_buffer_type_i {
    /// Name; lives as long as the buffer type.
    const char* (*get_name)(ggml_backend_buffer_type_t buft);
    /// A buffer of `size` bytes, more than 0; NULL without memory.
    ggml_backend_buffer_t (*alloc_buffer)(ggml_backend_buffer_type_t buft, size_t size);
    /// Alignment of tensors in bytes, a power of two.
    size_t (*get_alignment)(ggml_backend_buffer_type_t buft);
    /// Bytes of the largest buffer. May be NULL: no limit.
    size_t (*get_max_size)(ggml_backend_buffer_type_t buft);
    /// Bytes to reserve for `tensor`, at least ggml_nbytes(). May be NULL: ggml_nbytes().
    size_t (*get_alloc_size)(ggml_backend_buffer_type_t buft, const struct ggml_tensor* tensor);
    /// Whether data is in host memory in the ordinary layout. May be NULL: it is not.
    bool (*is_host)(ggml_backend_buffer_type_t buft);
};

/// A kind of memory. Owned by the backend, never released.
struct ggml_backend_buffer_type {
    struct ggml_backend_buffer_type_i iface;  ///< Its functions.
    ggml_backend_dev_t device;                ///< Its device; may be NULL.
    void* context;                            ///< For the backend.
};

// ------------------------------------------------------------------------------------------------
// Buffers

/// Functions of a buffer. Data access may come from any thread and does not wait for streams; it
/// has finished on return.
struct ggml_backend_buffer_i {
    /// Releases memory and context, not the object. May be NULL: nothing to release.
    void (*free_buffer)(ggml_backend_buffer_t buffer);
    /// First address, aligned, not NULL. May be NULL for a buffer without memory of its own.
    void* (*get_base)(ggml_backend_buffer_t buffer);
    /// Called once when a tensor or view is placed here. May be NULL.
    enum ggml_status (*init_tensor)(ggml_backend_buffer_t buffer, struct ggml_tensor* tensor);
    /// Sets bytes. May be NULL: then asking for it is an error.
    void (*memset_tensor)(ggml_backend_buffer_t buffer, struct ggml_tensor* tensor, uint8_t value,
                          size_t offset, size_t size);
    /// Writes bytes.
    void (*set_tensor)(ggml_backend_buffer_t buffer, struct ggml_tensor* tensor, const void* data,
                       size_t offset, size_t size);
    /// Reads bytes. May be NULL where weights are stored in a layout of the backend's own.
    void (*get_tensor)(ggml_backend_buffer_t buffer, const struct ggml_tensor* tensor, void* data,
                       size_t offset, size_t size);
    /// Writes evenly spaced pieces. May be NULL: set_tensor is called for each.
    void (*set_tensor_2d)(ggml_backend_buffer_t buffer, struct ggml_tensor* tensor,
                          const void* data, size_t offset, size_t size, size_t n_copies,
                          size_t stride_tensor, size_t stride_data);
    /// Reads evenly spaced pieces. May be NULL: get_tensor is called for each.
    void (*get_tensor_2d)(ggml_backend_buffer_t buffer, const struct ggml_tensor* tensor,
                          void* data, size_t offset, size_t size, size_t n_copies,
                          size_t stride_tensor, size_t stride_data);
    /// Copies `src`, from any buffer, to `dst` in this one; false, and nothing done, if it cannot.
    /// May be NULL.
    bool (*cpy_tensor)(ggml_backend_buffer_t buffer, const struct ggml_tensor* src,
                       struct ggml_tensor* dst);
    /// Sets every byte.
    void (*clear)(ggml_backend_buffer_t buffer, uint8_t value);
    /// Forgets all tensors placed here. May be NULL.
    void (*reset)(ggml_backend_buffer_t buffer);
};

/// A piece of memory. Made by ggml_backend_buffer_init(), released by ggml_backend_buffer_free().
struct ggml_backend_buffer {
    struct ggml_backend_buffer_i iface;    ///< Its functions.
    ggml_backend_buffer_type_t buft;       ///< Its type.
    void* context;                         ///< For the backend.
    size_t size;                           ///< Bytes.
    enum ggml_backend_buffer_usage usage;  ///< What it is for.
};

/// A new buffer object with these members and usage ANY; NULL without memory.
GGML_API ggml_backend_buffer_t ggml_backend_buffer_init(ggml_backend_buffer_type_t buft,
                                                        struct ggml_backend_buffer_i iface,
                                                        void* context, size_t size);

/// Copies `src` to `dst` by the cpy_tensor of the buffer that holds `dst`; false if it cannot.
GGML_API bool ggml_backend_buffer_copy_tensor(const struct ggml_tensor* src,
                                              struct ggml_tensor* dst);

/// One buffer that owns `n_buffers` others; clearing and releasing it does so to all. The array is
/// copied.
GGML_API ggml_backend_buffer_t
ggml_backend_multi_buffer_alloc_buffer(ggml_backend_buffer_t* buffers, size_t n_buffers);

/// Whether a buffer is such a one.
GGML_API bool ggml_backend_buffer_is_multi_buffer(ggml_backend_buffer_t buffer);

/// Sets what all parts of such a buffer are for.
GGML_API void ggml_backend_multi_buffer_set_usage(ggml_backend_buffer_t buffer,
                                                  enum ggml_backend_buffer_usage usage);

// ------------------------------------------------------------------------------------------------
// Streams

/// Functions of a stream.
struct ggml_backend_i {
    /// Name; lives as long as the stream.
    const char* (*get_name)(ggml_backend_t backend);
    /// Releases the stream, the object included.
    void (*free)(ggml_backend_t backend);

    /// Writes bytes, in order with other work. May be NULL: synchronize, then write. `data` stays
    /// until the stream is synchronised; `tensor` need not outlive the call, nor below.
    void (*set_tensor_async)(ggml_backend_t backend, struct ggml_tensor* tensor, const void* data,
                             size_t offset, size_t size);
    /// Reads bytes, in order with other work. May be NULL: synchronize, then read.
    void (*get_tensor_async)(ggml_backend_t backend, const struct ggml_tensor* tensor, void* data,
                             size_t offset, size_t size);
    /// Writes evenly spaced pieces. May be NULL: set_tensor_async for each.
    void (*set_tensor_2d_async)(ggml_backend_t backend, struct ggml_tensor* tensor,
                                const void* data, size_t offset, size_t size, size_t n_copies,
                                size_t stride_tensor, size_t stride_data);
    /// Reads evenly spaced pieces. May be NULL: get_tensor_async for each.
    void (*get_tensor_2d_async)(ggml_backend_t backend, const struct ggml_tensor* tensor,
                                void* data, size_t offset, size_t size, size_t n_copies,
                                size_t stride_tensor, size_t stride_data);

    /// Copies after all work queued on `backend_src`, before later work of either stream touches
    /// the data. Called on the destination; either stream may be of another backend. False, and
    /// nothing done, if it cannot. May be NULL.
    bool (*cpy_tensor_async)(ggml_backend_t backend_src, ggml_backend_t backend_dst,
                             const struct ggml_tensor* src, struct ggml_tensor* dst);

    /// Waits until all work is done. May be NULL if every function waits itself.
    void (*synchronize)(ggml_backend_t backend);

    /// Prepares a graph to be run many times. May be NULL: no plans.
    ggml_backend_graph_plan_t (*graph_plan_create)(ggml_backend_t backend,
                                                   const struct ggml_cgraph* cgraph);
    /// Releases a plan. May be NULL: no plans.
    void (*graph_plan_free)(ggml_backend_t backend, ggml_backend_graph_plan_t plan);
    /// Fits a plan to a changed graph of the same structure. May be NULL; never called at present.
    void (*graph_plan_update)(ggml_backend_t backend, ggml_backend_graph_plan_t plan,
                              const struct ggml_cgraph* cgraph);
    /// Runs a plan. May be NULL: no plans.
    enum ggml_status (*graph_plan_compute)(ggml_backend_t backend, ggml_backend_graph_plan_t plan);

    /// Computes all nodes in order, perhaps later. Skips empty tensors, nodes that only describe
    /// data (NONE, RESHAPE, VIEW, PERMUTE, TRANSPOSE) and nodes without GGML_TENSOR_FLAG_COMPUTE.
    ///
    /// A graph stays as it was given. Until this stream is synchronised or the graph is allocated
    /// anew, `cgraph`, its list of nodes, and the nodes' sources, parameters and addresses do not
    /// change: a thread of the backend's own may read them. A graph with the same `uid` as an
    /// earlier one, other than 0, is the same in all of that; pieces with `uid` 0 are gone when the
    /// stream has been synchronised. Use counts and flags are those of the whole graph.
    enum ggml_status (*graph_compute)(ggml_backend_t backend, struct ggml_cgraph* cgraph);

    /// Moves an event to the end of the queue. May be NULL: no events.
    void (*event_record)(ggml_backend_t backend, ggml_backend_event_t event);
    /// Makes later work wait for an event, without waiting itself. May be NULL: no events.
    void (*event_wait)(ggml_backend_t backend, ggml_backend_event_t event);

    /// May reorder independent nodes, before memory is planned; adds and removes none. The nodes
    /// are the ones that graph_compute is going to be given. May be NULL.
    void (*graph_optimize)(ggml_backend_t backend, struct ggml_cgraph* cgraph);
};

/// A stream of work on a device. Made and released by the backend.
struct ggml_backend {
    ggml_guid_t guid;             ///< Identity of the kind of backend; every kind has its own.
    struct ggml_backend_i iface;  ///< Its functions.
    ggml_backend_dev_t device;    ///< Its device.
    void* context;                ///< For the backend.
};

/// A point in a stream. Made and released by the device.
struct ggml_backend_event {
    struct ggml_backend_device* device;  ///< Its device.
    void* context;                       ///< For the backend.
};

// ------------------------------------------------------------------------------------------------
// Devices

/// Functions of a device. Any thread may call them.
struct ggml_backend_device_i {
    /// Short unique name; lives as long as the device.
    const char* (*get_name)(ggml_backend_dev_t dev);
    /// Name for people; lives as long as the device.
    const char* (*get_description)(ggml_backend_dev_t dev);
    /// Free and total memory in bytes; 0 and 0 if there is nothing to report.
    void (*get_memory)(ggml_backend_dev_t dev, size_t* free, size_t* total);
    /// Kind of device.
    enum ggml_backend_dev_type (*get_type)(ggml_backend_dev_t dev);
    /// Fills `props`, which arrive as zeros.
    void (*get_props)(ggml_backend_dev_t dev, struct ggml_backend_dev_props* props);
    /// A new stream; NULL if that fails. `params` may be NULL.
    ggml_backend_t (*init_backend)(ggml_backend_dev_t dev, const char* params);
    /// Preferred buffer type.
    ggml_backend_buffer_type_t (*get_buffer_type)(ggml_backend_dev_t dev);
    /// Host memory for fast transfers. May be NULL: none.
    ggml_backend_buffer_type_t (*get_host_buffer_type)(ggml_backend_dev_t dev);
    /// A buffer around host memory, NULL if impossible. May be NULL if the capability is not
    /// claimed.
    ggml_backend_buffer_t (*buffer_from_host_ptr)(ggml_backend_dev_t dev, void* ptr, size_t size,
                                                  size_t max_tensor_size);
    /// Whether `op` can be computed here. Cheap and honest: it is asked for every node, often
    /// before tensors have memory, and a yes is relied on.
    bool (*supports_op)(ggml_backend_dev_t dev, const struct ggml_tensor* op);
    /// Whether tensors in buffers of type `buft` can be read and written here.
    bool (*supports_buft)(ggml_backend_dev_t dev, ggml_backend_buffer_type_t buft);
    /// Whether `op` is worth moving here although its weights are in host memory. May be NULL:
    /// never.
    bool (*offload_op)(ggml_backend_dev_t dev, const struct ggml_tensor* op);
    /// A new event. May be NULL: no events.
    ggml_backend_event_t (*event_new)(ggml_backend_dev_t dev);
    /// Releases an event. Required with event_new.
    void (*event_free)(ggml_backend_dev_t dev, ggml_backend_event_t event);
    /// Waits for an event; one never recorded is reached. Required with event_new.
    void (*event_synchronize)(ggml_backend_dev_t dev, ggml_backend_event_t event);
};

/// A device. Owned by the backend, never released.
struct ggml_backend_device {
    struct ggml_backend_device_i iface;  ///< Its functions.
    ggml_backend_reg_t reg;              ///< Its registration.
    void* context;                       ///< For the backend.
};

// ------------------------------------------------------------------------------------------------
// Registrations

/// Functions of a registration.
struct ggml_backend_reg_i {
    /// Name; lives as long as the registration.
    const char* (*get_name)(ggml_backend_reg_t reg);
    /// Number of devices; does not change.
    size_t (*get_device_count)(ggml_backend_reg_t reg);
    /// Device number `index`.
    ggml_backend_dev_t (*get_device)(ggml_backend_reg_t reg, size_t index);
    /// A function of the backend's own by name, NULL for unknown ones. May be NULL: none.
    void* (*get_proc_address)(ggml_backend_reg_t reg, const char* name);
};

/// What a plug-in hands to the registry. Owned by the backend, never released.
struct ggml_backend_reg {
    int api_version;                  ///< GGML_BACKEND_API_VERSION.
    struct ggml_backend_reg_i iface;  ///< Its functions.
    void* context;                    ///< For the backend.
};

// ------------------------------------------------------------------------------------------------
// Joined devices (ggml_backend_meta_device())

/// Whether a stream is one over several devices.
GGML_API bool ggml_backend_is_meta(ggml_backend_t backend);

/// Whether a buffer spans several devices.
GGML_API bool ggml_backend_buffer_is_meta(ggml_backend_buffer_t buf);

/// Whether a buffer type spans several devices.
GGML_API bool ggml_backend_buft_is_meta(ggml_backend_buffer_type_t buft);

/// Number of streams behind such a stream.
GGML_API size_t ggml_backend_meta_n_backends(ggml_backend_t meta_backend);

/// Stream number `index` behind it.
GGML_API ggml_backend_t ggml_backend_meta_simple_backend(ggml_backend_t meta_backend, size_t index);

/// ggml_backend_alloc_ctx_tensors_from_buft() for such a buffer type: each device gets its share.
GGML_API struct ggml_backend_buffer* ggml_backend_meta_alloc_ctx_tensors_from_buft(
    struct ggml_context* ctx, ggml_backend_buffer_type_t buft);

// ------------------------------------------------------------------------------------------------
// Plug-ins
//
// A plug-in is a shared library that exports ggml_backend_init() and, if several variants of it
// exist, ggml_backend_score().

/// Type of ggml_backend_init(): the registration, or NULL if the backend cannot work here.
typedef ggml_backend_reg_t (*ggml_backend_init_t)(void);

/// Type of ggml_backend_score(): 0 if the variant cannot run on this machine, else more for better.
typedef int (*ggml_backend_score_t)(void);

#ifdef GGML_BACKEND_DL
#ifdef _WIN32
#define GGML_BACKEND_DL_EXPORT __declspec(dllexport)
#else
#define GGML_BACKEND_DL_EXPORT __attribute__((visibility("default")))  ///< Found by the loader.
#endif
#ifdef __cplusplus
#define GGML_BACKEND_DL_FUNCTION(type) extern "C" GGML_BACKEND_DL_EXPORT type
#else
#define GGML_BACKEND_DL_FUNCTION(type) GGML_BACKEND_DL_EXPORT type  ///< A function with C linkage.
#endif

/// Defines ggml_backend_init() as a call of `reg_fn`.
#define GGML_BACKEND_DL_IMPL(reg_fn)                                      \
    GGML_BACKEND_DL_FUNCTION(ggml_backend_reg_t) ggml_backend_init(void); \
    GGML_BACKEND_DL_FUNCTION(ggml_backend_reg_t) ggml_backend_init(void) { return reg_fn(); }

/// Defines ggml_backend_score() as a call of `score_fn`.
#define GGML_BACKEND_DL_SCORE_IMPL(score_fn)                \
    GGML_BACKEND_DL_FUNCTION(int) ggml_backend_score(void); \
    GGML_BACKEND_DL_FUNCTION(int) ggml_backend_score(void) { return score_fn(); }
#else
/// Nothing: a backend linked into the library is registered by it.
#define GGML_BACKEND_DL_IMPL(reg_fn)
/// Nothing, likewise.
#define GGML_BACKEND_DL_SCORE_IMPL(score_fn)
#endif

#ifdef __cplusplus
}
#endif
