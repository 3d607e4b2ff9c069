#include "sched/explain/json_writer.hpp"
#include "sched/explain/schedule.hpp"
#include "sched/explain/words.hpp"

namespace heddle::sched {
namespace {

/// One line per item: large schedules can still be read and compared as text.
template <class Items>
void write_items(JsonWriter& json, std::string_view name, const Items& items, auto&& write_fields) {
    json.new_line().key(name).begin_array();
    for (const auto& item : items) {
        json.new_line().begin_object();
        write_fields(item);
        json.end_object();
    }
    json.end_array();
}

void write_devices(JsonWriter& json, const Schedule& schedule) {
    int number = 0;
    write_items(json, "devices", schedule.devices, [&](const Schedule::DeviceInfo& device) {
        json.field("name", device.name).field("device", device.device);
        json.field("description", device.description).field("memory_type", device.memory_type);
        json.field("async", device.is_async).field("available", device.available);
        json.field("free", device.free).field("total", device.total);
        json.field("planned", device.planned).field("color", words::color(number++));
    });
}

void write_tensors(JsonWriter& json, const Schedule& schedule) {
    write_items(json, "nodes", schedule.nodes, [&](const Schedule::Node& node) {
        json.field("name", node.name).field("op", node.op).field("type", node.type);
        json.list("shape", node.shape).field("size", node.size).list("sources", node.sources);
        json.field("device", node.device).field("split", node.split).field("with", node.with);
        json.field("device_seconds", node.device_seconds);
        json.field("rule", node.rule).field("because", node.because).field("why", node.why);
        json.key("declined").begin_array();
        for (const Schedule::Refusal& refusal : node.declined) {
            json.begin_object().field("device", refusal.device).field("reason", refusal.reason);
            json.end_object();
        }
        json.end_array();
        json.field("flops", node.flops).field("bytes", node.bytes);
        json.field("predicted_start", node.predicted_start);
        json.field("predicted_end", node.predicted_end);
    });
    write_items(json, "leafs", schedule.leafs, [&](const Schedule::Leaf& leaf) {
        json.field("name", leaf.name).field("type", leaf.type).list("shape", leaf.shape);
        json.field("size", leaf.size).field("device", leaf.device).field("rule", leaf.rule);
    });
}

void write_splits(JsonWriter& json, const Schedule& schedule) {
    write_items(json, "splits", schedule.splits, [&](const Schedule::SplitInfo& split) {
        json.field("device", split.device);
        json.list("nodes", split.nodes).list("copies", split.copies);
    });
    write_items(json, "copies", schedule.copies, [&](const Schedule::CopyInfo& copy) {
        json.field("tensor", copy.tensor).field("source", copy.source).field("name", copy.name);
        json.field("kind", copy.kind).field("from", copy.from).field("to", copy.to);
        json.field("split", copy.split).field("bytes", copy.bytes).field("kept", copy.kept);
    });
    write_items(json, "detours", schedule.detours, [&](const Schedule::DetourInfo& detour) {
        json.field("node", detour.node).field("split", detour.split);
        json.field("to", detour.to).field("bytes", detour.bytes);
    });
}

void write_program(JsonWriter& json, const Schedule& schedule) {
    write_items(json, "actions", schedule.actions, [&](const Schedule::ActionInfo& action) {
        json.field("kind", action.kind).field("index", action.index);
        json.field("device", action.device).field("queue", action.queue);
        json.list("waits", action.waits);
        json.field("first_step", action.first_step).field("last_step", action.last_step);
        json.field("predicted_start", action.predicted_start);
        json.field("predicted_end", action.predicted_end);
        json.field("skipped", action.skipped);
        if (!action.measured) return;
        json.field("measured_start", action.measured_start);
        json.field("measured_end", action.measured_end);
    });
    write_items(json, "memory", schedule.memory, [&](const Schedule::BlockInfo& block) {
        json.field("device", block.device).field("chunk", block.chunk);
        json.field("offset", block.offset).field("size", block.size);
        json.field("first", block.first).field("last", block.last);
        json.field("tensors", block.tensors);
    });
}

}  // namespace

std::string to_json(const Schedule& schedule) {
    JsonWriter json;
    json.begin_object().field("format", "heddle-schedule").field("version", 1);
    json.new_line().field("policy", schedule.policy).field("cost_origin", schedule.cost_origin);
    json.field("predicted_seconds", schedule.predicted_seconds);
    json.field("measured_seconds", schedule.measured_seconds);
    json.field("slots", schedule.slots).field("steps", schedule.steps);
    json.field("overlaps_runs", schedule.overlaps_runs);
    json.field("uses_threads", schedule.uses_threads);
    write_devices(json, schedule);
    write_tensors(json, schedule);
    write_splits(json, schedule);
    write_program(json, schedule);
    json.new_line().list("hazards", schedule.hazards);
    json.end_object();
    return std::move(json).text() + "\n";
}

}  // namespace heddle::sched
