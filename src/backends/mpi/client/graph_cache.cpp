#include "backends/mpi/client/graph_cache.hpp"

#include <algorithm>
#include <unordered_map>

#include "backends/mpi/client/device.hpp"
#include "backends/mpi/delta.hpp"
#include "core/root_buffer.hpp"
#include "ggml/op_list.h"
#include "heddle/backend/nodes.hpp"
#include "ops/catalogue.hpp"

namespace heddle::mpi {
namespace {

/// Numbers the tensors of a graph. What is no node of it is only read: how it came about does not
/// matter, so its operands do not travel.
class Description {
public:
    Description(const Graph& graph, const RemoteDevice& device) : graph_(graph), device_(device) {}

    Result<> add_node(const Tensor& node) {
        Record record = describe_alone(node);
        if (const auto known = numbers_.find(&node);
            known != numbers_.end() && known->second.is_node) {
            out.nodes.push_back(known->second.number);
            return ok();
        }
        for (std::size_t i = 0; i < record.sources.size(); ++i) {
            if (node.src[i] == nullptr || node.src[i] == &node) continue;
            HEDDLE_TRY_ASSIGN(record.sources[i], number_of(*node.src[i]));
        }
        HEDDLE_TRY(place(node, record));
        note_writes(node);
        for (std::size_t i = 0; i < record.sources.size(); ++i) {
            // Casts name themselves as what they write to.
            if (node.src[i] == &node) record.sources[i] = next_number();
        }
        out.nodes.push_back(keep(node, std::move(record), true));
        return ok();
    }

    GraphRecords out;

private:
    struct Number {
        std::uint32_t number = 0;
        bool is_node = false;
    };

    Result<std::int32_t> number_of(const Tensor& tensor) {
        if (const auto known = numbers_.find(&tensor); known != numbers_.end()) {
            return static_cast<std::int32_t>(known->second.number);
        }
        Record record = describe_alone(tensor);
        record.tensor.op = GGML_OP_NONE;
        std::memset(record.tensor.op_params, 0, sizeof record.tensor.op_params);
        HEDDLE_TRY(place(tensor, record));
        return static_cast<std::int32_t>(keep(tensor, std::move(record), false));
    }

    Result<> place(const Tensor& tensor, Record& record) {
        record.uses = use_count(graph_, tensor);
        if (tensor.view_src != nullptr && tensor.view_src != &tensor) {
            HEDDLE_TRY_ASSIGN(record.view_of, number_of(*tensor.view_src));
            record.tensor.view_offs = tensor.view_offs;
        }
        const ggml_backend_buffer* const buffer = root_buffer(tensor);
        if (buffer == nullptr || tensor.data == nullptr) return ok();
        if (heddle::is_empty(tensor)) return ok();
        const RemoteBuffer* const remote = remote_buffer(tensor);
        if (remote == nullptr || &remote->device() != &device_) {
            return invalid(describe(tensor), " is in memory of type ",
                           ggml_backend_buft_name(buffer->buft), ", which ", device_.shown_name(),
                           " cannot reach");
        }
        HEDDLE_TRY_ASSIGN(const Record located, remote->locate(tensor, 0, byte_size(tensor)));
        record.memory = located.memory;
        record.offset = located.offset;
        return ok();
    }

    /// What nodes write is no file's content any more; a step of an optimiser also writes what it
    /// keeps of gradients.
    static void note_writes(const Tensor& node) {
        if (!plugin::wants_computing(node)) return;
        if (RemoteBuffer* const buffer = remote_buffer(node)) buffer->note_graph();
        if (node.op != GGML_OP_OPT_STEP_ADAMW && node.op != GGML_OP_OPT_STEP_SGD) return;
        for (const Tensor* source : node.src) {
            RemoteBuffer* const buffer = source != nullptr ? remote_buffer(*source) : nullptr;
            if (buffer != nullptr) buffer->note_graph();
        }
    }

    std::int32_t next_number() const { return static_cast<std::int32_t>(out.records.size()); }

    std::uint32_t keep(const Tensor& tensor, Record record, bool is_node) {
        const auto number = static_cast<std::uint32_t>(out.records.size());
        out.records.push_back(std::move(record));
        numbers_[&tensor] = {number, is_node};
        return number;
    }

    const Graph& graph_;
    const RemoteDevice& device_;
    std::unordered_map<const Tensor*, Number> numbers_;
};

}  // namespace

Result<GraphRecords> describe_graph(const Graph& graph, const RemoteDevice& device) {
    Description description(graph, device);
    for (const Tensor* node : nodes_of(graph)) {
        if (node == nullptr) return invalid("graph: a node is NULL");
        HEDDLE_TRY(description.add_node(*node));
    }
    return std::move(description.out);
}

/// Nothing is sent that the worker would have to refuse.
Result<> GraphCache::check(const Graph& graph) const {
    for (const Tensor* node : nodes_of(graph)) {
        if (node == nullptr || !plugin::wants_computing(*node)) continue;
        const std::string_view reason = device_.objection(*node);
        if (reason.empty()) continue;
        if (auto lost = device_.cluster().loss(device_.rank())) return *std::move(lost);
        return failure(Errc::unsupported, "node ", describe(*node), ", ", describe_op_of(*node),
                       ": ", reason);
    }
    return ok();
}

Result<std::uint32_t> GraphCache::number_of(const Graph& graph) {
    ++runs_;
    if (graph.uid != 0) {
        const auto known = std::ranges::find(entries_, graph.uid, &Entry::uid);
        if (known != entries_.end()) {
            known->used = runs_;
            return known->number;
        }
    }
    HEDDLE_TRY_ASSIGN(const GraphRecords records, describe_graph(graph, device_));
    ByteWriter out(records.records.size() * 160);
    put_graph(out, records);
    const auto same = std::ranges::find_if(
        entries_, [&](const Entry& entry) { return std::ranges::equal(entry.bytes, out.view()); });
    if (same != entries_.end()) {
        same->uid = graph.uid;
        same->used = runs_;
        return same->number;
    }
    HEDDLE_TRY(check(graph));
    if (entries_.size() == kMostGraphs) drop_oldest();
    Entry entry{graph.uid, device_.cluster().next_number(), out.take(), runs_};
    HEDDLE_TRY(send(entry));
    entries_.push_back(std::move(entry));
    return entries_.back().number;
}

Result<> GraphCache::send(const Entry& entry) const {
    if (entry.bytes.size() > kLongestGraph) {
        return failure(Errc::unsupported, "a graph of ", entry.bytes.size(),
                       " bytes, more than the ", kLongestGraph, " that a worker takes");
    }
    HEDDLE_TRY_ASSIGN(const bool is_sent, send_delta(entry));
    return is_sent ? ok() : send_whole(entry);
}

/// False where there is none of its size, or one that differs too much.
Result<bool> GraphCache::send_delta(const Entry& entry) const {
    const Entry* base = nullptr;
    for (const Entry& each : entries_) {
        if (each.bytes.size() != entry.bytes.size()) continue;
        if (base == nullptr || each.used > base->used) base = &each;
    }
    if (base == nullptr) return false;
    ByteWriter out = begin({.kind = Kind::graph_delta, .stream = stream_});
    out.put(entry.number);
    out.put(base->number);
    put_delta(out, base->bytes, entry.bytes);
    if (out.size() > std::min(entry.bytes.size() / 2, kChunk)) return false;
    HEDDLE_TRY(device_.cluster().post(device_.rank(), seal(std::move(out))));
    return true;
}

Result<> GraphCache::send_whole(const Entry& entry) const {
    const ByteView all = entry.bytes;
    for (std::size_t done = 0; done < all.size(); done += kChunk) {
        const ByteView part = all.subspan(done, std::min(kChunk, all.size() - done));
        ByteWriter out = begin({.kind = Kind::graph, .stream = stream_}, part.size() + 16);
        out.put(entry.number);
        out.put(static_cast<std::uint32_t>(all.size()));
        out.raw(part);
        HEDDLE_TRY(device_.cluster().post(device_.rank(), seal(std::move(out))));
    }
    return ok();
}

void GraphCache::drop_oldest() {
    const auto oldest = std::ranges::min_element(entries_, {}, &Entry::used);
    ByteWriter out = begin({.kind = Kind::drop_graph, .stream = stream_});
    out.put(oldest->number);
    (void)device_.cluster().post(device_.rank(), seal(std::move(out)));
    entries_.erase(oldest);
}

}  // namespace heddle::mpi
