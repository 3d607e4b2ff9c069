// Hostile graphs and nodes, as a worker decodes them. Whatever the bytes are, they are refused or
// understood; what was understood can be written again, and is then the same bytes.
#include <algorithm>

#include "backends/mpi/codec.hpp"
#include "backends/mpi/delta.hpp"
#include "backends/mpi/protocol.hpp"
#include "mpi_fuzz.hpp"

namespace {

using namespace heddle;
using namespace heddle::mpi;
using fuzz::require;

Tensor matrix(std::int64_t columns, std::int64_t rows) {
    Tensor tensor{};
    tensor.type = GGML_TYPE_F32;
    const std::int64_t extents[] = {columns, rows, 1, 1};
    std::size_t stride = sizeof(float);
    for (int i = 0; i < 4; ++i) {
        tensor.ne[i] = extents[i];
        tensor.nb[i] = stride;
        stride *= static_cast<std::size_t>(extents[i]);
    }
    return tensor;
}

/// Weights, inputs, a product, a view of it and a sum.
Bytes valid_graph() {
    GraphRecords graph;
    const auto add = [&](Tensor tensor, Op op, std::array<std::int32_t, 2> sources) -> Record& {
        tensor.op = op;
        Record& record = graph.records.emplace_back();
        record.tensor = tensor;
        record.sources[0] = sources[0];
        record.sources[1] = sources[1];
        record.memory = 1;
        record.offset = graph.records.size() * 4096;
        record.uses = 1;
        return record;
    };
    add(matrix(8, 16), GGML_OP_NONE, {-1, -1});
    add(matrix(8, 4), GGML_OP_NONE, {-1, -1});
    add(matrix(16, 4), GGML_OP_MUL_MAT, {0, 1});
    Record& view = add(matrix(16, 2), GGML_OP_VIEW, {2, -1});
    view.view_of = 2;
    view.tensor.view_offs = 128;
    add(matrix(16, 2), GGML_OP_ADD, {3, 3});
    graph.nodes = {2, 3, 4};
    ByteWriter out;
    put_graph(out, graph);
    return out.take();
}

void check(const Record& record, std::span<const Record> earlier) {
    const std::size_t number = earlier.size();
    require(record.tensor.op >= 0 && record.tensor.op < GGML_OP_COUNT, "an op is none");
    require(byte_size(record.tensor) < SIZE_MAX / 2, "a tensor cannot be counted");
    for (const std::int32_t source : record.sources) {
        require(source >= -1 && source <= static_cast<std::int32_t>(number), "a source is later");
    }
    require(record.view_of < static_cast<std::int32_t>(number), "a view of a later one");
    if (record.view_of < 0 || byte_size(record.tensor) == 0) return;  // nothing is read of it
    const Record& root = earlier[static_cast<std::size_t>(record.view_of)];
    require(root.view_of < 0, "a view of a view");
    require(record.tensor.view_offs + byte_size(record.tensor) <= byte_size(root.tensor),
            "a view passes the end of its root");
}

void try_graph(ByteView bytes) {
    ByteReader in(bytes);
    const auto graph = get_graph(in);
    if (!graph) return;
    ByteWriter out;
    put_graph(out, *graph);
    ByteReader again(out.view());
    const auto same = get_graph(again);
    require(same.has_value(), "a graph is not understood a second time");
    ByteWriter twice;
    put_graph(twice, *same);
    require(std::ranges::equal(out.view(), twice.view()), "a graph changes on its way");
    const std::span all(graph->records);
    for (std::size_t i = 0; i < all.size(); ++i) check(all[i], all.first(i));
    for (const std::uint32_t node : graph->nodes) require(node < all.size(), "a node is none");
}

/// What differs from a graph that the worker has; and what was understood can be said again.
void try_delta(ByteView base, ByteView bytes) {
    ByteReader in(bytes);
    const auto next = apply_delta(base, in);
    if (!next) return;
    require(next->size() == base.size(), "a graph of another length");
    ByteWriter out;
    put_delta(out, base, *next);
    ByteReader again(out.view());
    const auto same = apply_delta(base, again);
    require(same && *same == *next, "a change changes on its way");
    try_graph(*next);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const Bytes valid = valid_graph();
    static const bool is_valid = [] {
        ByteReader in(valid);
        return get_graph(in).has_value();
    }();
    require(is_valid, "the example is no graph");
    const ByteView all(reinterpret_cast<const std::byte*>(data), size);
    if (all.empty()) return 0;
    const ByteView rest = all.subspan(1);
    if (data[0] % 3 == 0) {
        try_graph(rest);
    } else if (data[0] % 3 == 1) {
        try_graph(fuzz::edited(valid, rest));
    } else {
        try_delta(valid, rest);
    }
    return 0;
}
