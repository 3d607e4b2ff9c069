/// What a stream computes together, how long each part takes on the device itself, and when its
/// queue worked on what.
///
/// A registration may offer these by ggml_backend_reg_get_proc_address(), besides
/// "heddle_fused_with" (heddle/cpu.h). Schedulers ask when a schedule is explained.
#pragma once

#include <stdint.h>

#include "../../ggml-backend.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HEDDLE_STREAM_TRACE "heddle_stream_trace"
#define HEDDLE_STREAM_TIMES "heddle_stream_times"
#define HEDDLE_QUEUE_SPAN "heddle_queue_span"
#define HEDDLE_TRACE_SPANS "heddle_trace_spans"

/// From now on `stream`, of the registration that gave the function, notes how long the device
/// takes for nodes that it computes together, or no longer does. Graphs take longer meanwhile.
/// What was noted before is forgotten. False for other streams.
typedef bool (*heddle_stream_trace_t)(ggml_backend_t stream, bool on);

/// What was noted of one of the graphs that `stream` computed since then: the last one if `back` is
/// 0, the one before it if it is 1, ... `seconds` gets a number for each of its `count` nodes: for
/// the first of those that are computed together the time of all, for the others 0. Waits for the
/// stream. False if no such graph with so many nodes was noted.
typedef bool (*heddle_stream_times_t)(ggml_backend_t stream, int back, double* seconds, int count);

/// When the device began with what a stream was given between `from` and `to`, two events that were
/// recorded on it one after the other, and when it had done it: seconds of CLOCK_MONOTONIC, noted
/// by the queue itself. What the stream only waited for does not count; for nothing at all the two
/// are the same. Waits for `to`. False for events of others, and where nothing was noted.
///
/// A stream that works in the background and has no such function is waited for before and after
/// each thing whose time is taken, so nothing overlaps meanwhile.
typedef bool (*heddle_queue_span_t)(ggml_backend_event_t from, ggml_backend_event_t to,
                                    double* begin, double* end);

/// Something that a stream of another process did.
struct heddle_trace_span {
    const char* process;  ///< such as "rank 1 on n1"; one of a trace
    const char* track;    ///< within the process: a stream
    const char* name;     ///< what was done
    double start, end;    ///< seconds, of CLOCK_MONOTONIC of this process
    double error;         ///< how far the times may be off, as clocks of processes differ
    uint32_t transfer;    ///< not 0: what another span with this number sends or receives
    bool sends;           ///< of a transfer: its beginning
};

/// Gives what streams that are traced (heddle_stream_trace_t) did since then, one after the other.
/// Waits for other processes to tell. The texts are valid while `take` runs.
typedef void (*heddle_trace_spans_t)(void (*take)(const struct heddle_trace_span* span, void* user),
                                     void* user);

#ifdef __cplusplus
}
#endif
