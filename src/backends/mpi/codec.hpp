#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/mpi/bytes.hpp"
#include "core/graph.hpp"
#include "core/tensor.hpp"

/// Tensors and graphs as other ranks are told of them.
namespace heddle::mpi {

/// A tensor in a message. Others are named by their number in the same list, which is smaller than
/// its own, so nothing can go round in circles. Only itself it may name: casts do.
struct Record {
    Tensor tensor{};  ///< without pointers
    std::array<std::int32_t, kMaxSources> sources{-1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
    std::int32_t view_of = -1;
    std::uint32_t memory = 0;  ///< a buffer; in questions a buffer type, from 1. 0: none
    std::uint64_t offset = 0;  ///< in that buffer
    std::int32_t uses = 0;     ///< by nodes of the whole graph, of which this may be a part
};

void put_record(ByteWriter& out, const Record& record);

/// Record number `earlier.size()` of a list. Fails unless it can be: type and op exist, the layout
/// can be walked, it names earlier records only, and a view ends where its root does.
Result<Record> get_record(ByteReader& in, std::span<const Record> earlier);

/// Records, and which of them are nodes, in the order they run; one may run more than once.
struct GraphRecords {
    std::vector<Record> records;
    std::vector<std::uint32_t> nodes;
};

void put_graph(ByteWriter& out, const GraphRecords& graph);
Result<GraphRecords> get_graph(ByteReader& in);

/// The fields of a tensor that travel, without those that name other tensors.
Record describe_alone(const Tensor& tensor);

/// What a question about a node says of it: the node behind its operands. `memory_of` gives the
/// number of the type of memory a tensor is in.
template <class MemoryOf>
std::vector<Record> describe_node(const Tensor& node, const MemoryOf& memory_of) {
    std::vector<Record> records;
    Record last = describe_alone(node);
    for (std::size_t i = 0; i < last.sources.size(); ++i) {
        if (node.src[i] == nullptr || node.src[i] == &node) continue;
        last.sources[i] = static_cast<std::int32_t>(records.size());
        Record source = describe_alone(*node.src[i]);
        source.tensor.op = kNoOp;
        source.tensor.name[0] = '\0';
        std::memset(source.tensor.op_params, 0, sizeof source.tensor.op_params);
        source.memory = memory_of(*node.src[i]);
        records.push_back(source);
    }
    for (std::size_t i = 0; i < last.sources.size(); ++i) {
        if (node.src[i] == &node) last.sources[i] = static_cast<std::int32_t>(records.size());
    }
    last.tensor.name[0] = '\0';
    last.memory = memory_of(node);
    records.push_back(last);
    return records;
}

}  // namespace heddle::mpi
