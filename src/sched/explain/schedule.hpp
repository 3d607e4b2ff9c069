#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sched/scheduler.hpp"

/// The whole schedule as plain data that outlives graph and scheduler, and ways to look at it.
namespace heddle::sched {

/// Numbers are places in the vectors below. Tensors are counted through: nodes first, then leafs.
struct Schedule {
    struct DeviceInfo {  ///< a runner of the team
        std::string name, device, description, memory_type;
        bool is_async = false, available = true;
        std::size_t free = 0, total = 0;  ///< memory of the device
        std::size_t planned = 0;          ///< bytes of the compute buffers
    };
    struct Refusal {
        int device;
        std::string reason;  ///< in the device's words
    };
    struct Node {
        std::string name, op, type;
        std::vector<std::int64_t> shape;
        std::vector<int> sources;  ///< numbers of tensors
        int device = -1, split = -1;
        int with = -1;  ///< the first of the nodes that the device computes together; -1: alone
        std::string rule, because;  ///< because: the tensor that decided; empty if none
        std::string why;            ///< the same as a sentence
        std::vector<Refusal> declined;
        double flops = 0, bytes = 0;
        double device_seconds = 0;  ///< of it and what goes with it, if the device noted that
        double predicted_start = 0, predicted_end = 0;
        std::size_t size = 0;
    };
    struct Leaf {
        std::string name, type;
        std::vector<std::int64_t> shape;
        int device = -1;
        std::string rule;
        std::size_t size = 0;
    };
    struct SplitInfo {
        int device = -1;
        std::vector<int> nodes;
        std::vector<int> copies;
    };
    struct CopyInfo {
        std::string tensor, name, kind;  ///< name: of the stand-in
        int source = -1;                 ///< number of the tensor
        int from = -1, to = -1, split = -1;
        std::size_t bytes = 0;
        bool kept = false;  ///< in the cache of constants
    };
    struct DetourInfo {  ///< computed where its memory is not, and written back
        int node = -1, split = -1;
        int to = -1;  ///< whose memory it is written to; -1: of none of the devices
        std::size_t bytes = 0;
    };
    struct ActionInfo {
        std::string kind, queue;
        int device = -1, index = -1;  ///< index: of a copy, split or detour, by kind
        std::vector<int> waits;
        int first_step = 0, last_step = 0;
        double predicted_start = 0, predicted_end = 0;
        double measured_start = 0, measured_end = 0;
        bool measured = false, skipped = false;
    };
    /// Memory that one tensor, or several one after the other, have for a while. Time is counted in
    /// steps: each node is one, each copy is one, in the order of submission.
    struct BlockInfo {
        int device = -1, chunk = 0;
        std::size_t offset = 0, size = 0;
        int first = 0, last = 0;
        std::string tensors;
    };
    /// What a stream of another process did, in seconds since the run began.
    struct SpanInfo {
        std::string process, track, name;
        double start = 0, end = 0, error = 0;
        std::uint32_t transfer = 0;  ///< if not 0, the number of a transfer, and
        bool sends = false;          ///< whether it is the beginning of it
    };
    std::vector<DeviceInfo> devices;
    std::vector<Node> nodes;
    std::vector<Leaf> leafs;
    std::vector<SplitInfo> splits;
    std::vector<CopyInfo> copies;
    std::vector<DetourInfo> detours;
    std::vector<ActionInfo> actions;  ///< none if the graph was only split
    std::vector<BlockInfo> memory;
    std::vector<SpanInfo> spans;  ///< of the last run, where it was traced
    std::vector<std::string> hazards;
    std::string policy, cost_origin;
    int slots = 1, steps = 0;
    bool overlaps_runs = false, uses_threads = false;
    double predicted_seconds = 0, measured_seconds = 0;
};

/// Everything about the graph that was split or allocated last. Asks devices why they decline nodes
/// if `with_refusals`.
Result<Schedule> explain(Scheduler& scheduler, bool with_refusals = true);

/// All of it. Bytes of names that are not UTF-8 become U+FFFD.
std::string to_json(const Schedule& schedule);
std::string to_text(const Schedule& schedule);        ///< tables for a terminal
std::string nodes_to_text(const Schedule& schedule);  ///< one line per node, with its reason
std::string to_dot(const Schedule& schedule);         ///< the graph, coloured by device
std::string to_trace(const Schedule& schedule);  ///< for Perfetto: a track per queue, one clock
std::string to_html(const Schedule& schedule);   ///< one page that needs nothing else

}  // namespace heddle::sched
