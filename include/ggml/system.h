/// Versions, time, files, log, identities and thread pools.
///
/// Included by `ggml.h`; programs include that one.
#pragma once

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Version of the interface, such as "0.21.0". Static.
GGML_API const char* ggml_version(void);

/// Source revision the library was built from, or "unknown". Static.
GGML_API const char* ggml_commit(void);

// ------------------------------------------------------------------------------------------------
// Time

/// Starts the clock. The first ggml_init() does it, too; calling it again is fine.
GGML_API void ggml_time_init(void);

/// Milliseconds since some fixed moment.
GGML_API int64_t ggml_time_ms(void);

/// Microseconds since some fixed moment.
GGML_API int64_t ggml_time_us(void);

/// Processor time in ticks.
GGML_API int64_t ggml_cycles(void);

/// Such ticks per millisecond.
GGML_API int64_t ggml_cycles_per_ms(void);

/// fopen() with a UTF-8 file name on every system. NULL if that fails.
GGML_API FILE* ggml_fopen(const char* fname, const char* mode);

// ------------------------------------------------------------------------------------------------
// Log

/// How serious a message is.
enum ggml_log_level GGML_ENUM_INT {
    GGML_LOG_LEVEL_NONE = 0,   ///< Plain output.
    GGML_LOG_LEVEL_DEBUG = 1,  ///< For developers.
    GGML_LOG_LEVEL_INFO = 2,   ///< Progress.
    GGML_LOG_LEVEL_WARN = 3,   ///< Something is doubtful.
    GGML_LOG_LEVEL_ERROR = 4,  ///< Something failed.
    GGML_LOG_LEVEL_CONT = 5,   ///< Continues the message before.
};

/// Receives messages; `text` ends its line itself and is valid during the call only. Any thread may
/// call it.
typedef void (*ggml_log_callback)(enum ggml_log_level level, const char* text, void* user_data);

/// The callback in use and its data.
GGML_API void ggml_log_get(ggml_log_callback* log_callback, void** user_data);

/// Sends messages to `log_callback` from now on; NULL restores writing to stderr.
GGML_API void ggml_log_set(ggml_log_callback log_callback, void* user_data);

// ------------------------------------------------------------------------------------------------
// Identities and cancelling

typedef uint8_t ggml_guid[16];   ///< Identity of a kind of backend.
typedef ggml_guid* ggml_guid_t;  ///< Reference to one; static.

/// Whether two identities are equal.
GGML_API bool ggml_guid_matches(ggml_guid_t guid_a, ggml_guid_t guid_b);

/// Asked while a graph runs; true stops it with GGML_STATUS_ABORTED.
typedef bool (*ggml_abort_callback)(void* data);

// ------------------------------------------------------------------------------------------------
// Thread pools

struct ggml_threadpool;                             ///< Threads that compute on the CPU.
typedef struct ggml_threadpool* ggml_threadpool_t;  ///< Handle of a thread pool.

/// How urgent threads are for the operating system.
enum ggml_sched_priority GGML_ENUM_INT {
    GGML_SCHED_PRIO_LOW = -1,      ///< Below others.
    GGML_SCHED_PRIO_NORMAL = 0,    ///< As others.
    GGML_SCHED_PRIO_MEDIUM = 1,    ///< Above others.
    GGML_SCHED_PRIO_HIGH = 2,      ///< Well above others.
    GGML_SCHED_PRIO_REALTIME = 3,  ///< Before all others; may need rights.
};

/// How to make a thread pool.
struct ggml_threadpool_params {
    bool cpumask[GGML_MAX_N_THREADS];  ///< Processors to run on; all false means any.
    int n_threads;                     ///< Number of threads, the caller's included.
    enum ggml_sched_priority prio;     ///< Priority of the threads.
    uint32_t poll;                     ///< How long to spin for work: 0 not at all, 100 most.
    bool strict_cpu;                   ///< Whether each thread gets one processor of the mask.
    bool paused;                       ///< Whether threads start asleep.
};

/// Parameters for `n_threads` threads anywhere, of normal priority.
GGML_API struct ggml_threadpool_params ggml_threadpool_params_default(int n_threads);

/// The same, written to `p`.
GGML_API void ggml_threadpool_params_init(struct ggml_threadpool_params* p, int n_threads);

/// Whether two sets of parameters ask for the same pool.
GGML_API bool ggml_threadpool_params_match(const struct ggml_threadpool_params* p0,
                                           const struct ggml_threadpool_params* p1);

#ifdef __cplusplus
}
#endif
