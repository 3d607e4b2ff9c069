#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "sched/explain/json_writer.hpp"
#include "sched/explain/schedule.hpp"
#include "sched/explain/words.hpp"

namespace heddle::sched {
namespace {

/// The two views of a run: a process each, so that both stand on one clock under each other. Other
/// processes of the machine or of others are numbered from `others` on.
enum class Process { predicted = 1, measured = 2, others = 3 };

class TraceWriter {
public:
    explicit TraceWriter(const Schedule& schedule) : schedule_(schedule) {}

    std::string write() {
        json_.begin_object().field("displayTimeUnit", "ns").key("traceEvents").begin_array();
        write_process(Process::predicted, "predicted (speeds " + schedule_.cost_origin + ")");
        if (schedule_.measured_seconds > 0) write_process(Process::measured, "measured");
        write_spans();
        json_.end_array().end_object();
        return std::move(json_).text() + "\n";
    }

private:
    /// Numbered in the order of devices, then of their queues.
    int queue_of(const Schedule::ActionInfo& action) const {
        const auto queue = std::ranges::find(kQueueNames, action.queue) - kQueueNames.begin();
        return action.device * static_cast<int>(kQueues) + static_cast<int>(queue) + 1;
    }

    /// The fields that all events have.
    JsonWriter& event(const char* phase, Process process, int queue) {
        json_.new_line().begin_object().field("ph", phase);
        return json_.field("pid", static_cast<int>(process)).field("tid", queue);
    }

    static double microseconds(double seconds) { return seconds * 1e6; }

    static std::pair<double, double> times(const Schedule::ActionInfo& action, Process process) {
        if (process == Process::predicted) return {action.predicted_start, action.predicted_end};
        return {action.measured_start, action.measured_end};
    }

    static bool happened(const Schedule::ActionInfo& action, Process process) {
        return process == Process::predicted || (action.measured && !action.skipped);
    }

    void write_process(Process process, const std::string& name) {
        event("M", process, 0).field("name", "process_name").key("args").begin_object();
        json_.field("name", name).end_object().end_object();
        std::map<int, std::string> queues;
        for (const auto& action : schedule_.actions) {
            queues.emplace(queue_of(action), std::string(words::device(schedule_, action.device)) +
                                                 " " + action.queue);
        }
        for (const auto& [queue, title] : queues) {
            event("M", process, queue).field("name", "thread_name").key("args").begin_object();
            json_.field("name", title).end_object().end_object();
            event("M", process, queue).field("name", "thread_sort_index").key("args");
            json_.begin_object().field("sort_index", queue).end_object().end_object();
        }
        for (std::size_t i = 0; i < schedule_.actions.size(); ++i) write_action(process, i);
    }

    void write_action(Process process, std::size_t number) {
        const auto& action = schedule_.actions[number];
        if (!happened(action, process)) return;
        const auto [start, end] = times(action, process);
        event("X", process, queue_of(action)).field("name", words::action(schedule_, action));
        json_.field("cat", action.kind).field("ts", microseconds(start));
        json_.field("dur", microseconds(end - start)).key("args").begin_object();
        json_.field("action", number).field("index", action.index);
        if (action.kind == "copy") {
            const auto& copy = schedule_.copies.at(static_cast<std::size_t>(action.index));
            json_.field("bytes", copy.bytes).field("kind", copy.kind);
            json_.field("from", words::device(schedule_, copy.from));
            json_.field("to", words::device(schedule_, copy.to));
        }
        json_.end_object().end_object();
        if (process == Process::predicted && action.kind == "compute") write_nodes(action);
        for (const int wait : action.waits) write_wait(process, wait, number);
    }

    /// Nodes lie within their split.
    void write_nodes(const Schedule::ActionInfo& action) {
        const auto& split = schedule_.splits.at(static_cast<std::size_t>(action.index));
        for (const int i : split.nodes) {
            const auto& node = schedule_.nodes.at(static_cast<std::size_t>(i));
            if (node.predicted_end <= node.predicted_start) continue;
            event("X", Process::predicted, queue_of(action)).field("name", node.name);
            json_.field("cat", "node").field("ts", microseconds(node.predicted_start));
            json_.field("dur", microseconds(node.predicted_end - node.predicted_start));
            json_.key("args").begin_object().field("op", node.op).list("shape", node.shape);
            json_.field("why", node.why).end_object().end_object();
        }
    }

    /// An arrow from the end of one action to the start of another.
    void write_wait(Process process, int from, std::size_t to) {
        const auto& first = schedule_.actions.at(static_cast<std::size_t>(from));
        if (!happened(first, process)) return;
        const auto& second = schedule_.actions[to];
        const int id = ++arrows_;
        event("s", process, queue_of(first)).field("name", "wait").field("cat", "wait");
        json_.field("id", id).field("ts", microseconds(times(first, process).second));
        json_.end_object();
        event("f", process, queue_of(second)).field("name", "wait").field("cat", "wait");
        json_.field("bp", "e").field("id", id);
        json_.field("ts", microseconds(times(second, process).first)).end_object();
    }

    void write_name(const char* what, Process process, int queue, const std::string& name) {
        event("M", process, queue).field("name", what).key("args").begin_object();
        json_.field("name", name).end_object().end_object();
    }

    /// A process for each other one, with a track for each of its streams.
    void write_spans() {
        std::map<std::string, int> processes;
        std::map<std::pair<std::string, std::string>, int> tracks;
        for (const auto& span : schedule_.spans) {
            const int first = static_cast<int>(Process::others);
            const auto [process, is_new] =
                processes.emplace(span.process, first + static_cast<int>(processes.size()));
            const auto number = static_cast<Process>(process->second);
            if (is_new) write_name("process_name", number, 0, span.process);
            const auto [track, is_new_track] = tracks.emplace(std::pair(span.process, span.track),
                                                              static_cast<int>(tracks.size()) + 1);
            if (is_new_track) write_name("thread_name", number, track->second, span.track);
            write_span(span, number, track->second);
        }
    }

    void write_span(const Schedule::SpanInfo& span, Process process, int queue) {
        event("X", process, queue).field("name", span.name).field("cat", "worker");
        json_.field("ts", microseconds(span.start))
            .field("dur", microseconds(span.end - span.start));
        json_.key("args").begin_object().field("clock_error_us", microseconds(span.error));
        json_.end_object().end_object();
        if (span.transfer == 0) return;
        event(span.sends ? "s" : "f", process, queue).field("name", "transfer");
        json_.field("cat", "transfer").field("id", std::size_t{span.transfer});
        if (!span.sends) json_.field("bp", "e");
        json_.field("ts", microseconds(span.sends ? span.start : span.end)).end_object();
    }

    const Schedule& schedule_;
    JsonWriter json_;
    int arrows_ = 0;
};

}  // namespace

std::string to_trace(const Schedule& schedule) { return TraceWriter(schedule).write(); }

}  // namespace heddle::sched
