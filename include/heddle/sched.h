/// What Heddle's scheduler can do beyond ggml_backend_sched_*: place nodes by cost, keep to memory
/// budgets, overlap runs, and show its whole schedule.
///
/// All functions take a scheduler made by ggml_backend_sched_new(). Failures leave their sentence
/// in heddle_last_error() and change nothing.
#pragma once

#include "../ggml-backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/// How nodes are given to devices.
enum heddle_sched_policy GGML_ENUM_INT {
    /// Memory and weights decide, inputs stay on the host: what programs written for ggml rely on.
    HEDDLE_SCHED_POLICY_RULES = 0,
    /// The predicted time of the whole graph decides, within the budgets.
    HEDDLE_SCHED_POLICY_COST = 1,
};

/// Chooses the policy for the graphs that follow. The first use of the cost policy measures devices
/// and links, or reads what was measured before (see heddle_sched_set_cost_file()).
GGML_API bool heddle_sched_set_policy(ggml_backend_sched_t sched, enum heddle_sched_policy policy);

/// Where measured costs are kept between programs; NULL for the default (heddle/costs.tsv in
/// $XDG_CACHE_HOME if that is an absolute path, else in ~/.cache), "" for nowhere.
GGML_API bool heddle_sched_set_cost_file(ggml_backend_sched_t sched, const char* path);

/// At most `bytes` of the device's memory for results and kept copies of weights.
GGML_API bool heddle_sched_set_budget(ggml_backend_sched_t sched, ggml_backend_t backend,
                                      size_t bytes);

/// The same the other way round: leave `bytes` of the device's memory free.
GGML_API bool heddle_sched_set_leave_free(ggml_backend_sched_t sched, ggml_backend_t backend,
                                          size_t bytes);

/// How many runs may be under way at a time (1 to 64): each copy between devices gets that many
/// places. ggml_backend_sched_new() begins with 4 if `parallel`, else 1. Resets the scheduler.
GGML_API bool heddle_sched_set_n_copies(ggml_backend_sched_t sched, int n_copies);

/// Whether times of all actions are taken while graphs run. Costs nothing when off, which is how it
/// begins.
GGML_API void heddle_sched_set_tracing(ggml_backend_sched_t sched, bool on);

/// Whether every wait is made at once by the host. For comparison: it is what overlap saves.
GGML_API void heddle_sched_set_synchronous(ggml_backend_sched_t sched, bool on);

/// Whether every new schedule is checked for reads of unwritten or overwritten memory across
/// streams; one that has any is refused.
GGML_API void heddle_sched_set_hazard_check(ggml_backend_sched_t sched, bool on);

/// Ways to look at a schedule.
enum heddle_explain_format GGML_ENUM_INT {
    HEDDLE_EXPLAIN_JSON = 0,   ///< All of it, as data.
    HEDDLE_EXPLAIN_TEXT = 1,   ///< Tables for a terminal.
    HEDDLE_EXPLAIN_DOT = 2,    ///< The graph coloured by device, for Graphviz.
    HEDDLE_EXPLAIN_TRACE = 3,  ///< Chrome/Perfetto trace: one track per stream.
    HEDDLE_EXPLAIN_HTML = 4,   ///< One self-contained page.
};

/// The schedule of the graph that was split or allocated last: devices, nodes with the reason for
/// their place, splits, copies, memory over time, predicted and measured times. The graph must
/// still be there. The text belongs to the scheduler and is valid until the next call; NULL if no
/// graph was split.
GGML_API const char* heddle_sched_explain(ggml_backend_sched_t sched,
                                          enum heddle_explain_format format);

/// How often things happened since the scheduler was made.
struct heddle_sched_counts {
    uint64_t placed;          ///< Graphs that were placed, split and planned.
    uint64_t reused;          ///< Graphs that were the last one again.
    uint64_t runs;            ///< Runs begun.
    uint64_t copies_made;     ///< Copies between devices.
    uint64_t copies_skipped;  ///< Copies that were still up to date.
};

/// Fills `counts`, of which the caller knows `size` bytes.
GGML_API bool heddle_sched_get_counts(ggml_backend_sched_t sched,
                                      struct heddle_sched_counts* counts, size_t size);

/// Whether graphs are planned without the device of `backend`, because it failed. It is let in
/// again when it works. What lies in its memory may be lost.
GGML_API bool heddle_sched_is_left_out(ggml_backend_sched_t sched, ggml_backend_t backend);

#ifdef __cplusplus
}
#endif
