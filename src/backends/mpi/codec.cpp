#include "backends/mpi/codec.hpp"

#include <algorithm>

#include "backends/mpi/protocol.hpp"
#include "core/sound_layout.hpp"
#include "ggml/op_list.h"
#include "ops/custom.hpp"

namespace heddle::mpi {
namespace {

/// Parameters end with zeros for most ops.
std::size_t used_params(const Tensor& tensor) {
    const auto* bytes = reinterpret_cast<const std::byte*>(tensor.op_params);
    std::size_t used = sizeof tensor.op_params;
    while (used > 0 && bytes[used - 1] == std::byte{0}) --used;
    return used;
}

void get_tensor(ByteReader& in, Tensor& tensor) {
    tensor.type = static_cast<Type>(in.get<std::uint16_t>());
    tensor.op = static_cast<Op>(in.get<std::uint16_t>());
    tensor.flags = in.get<std::int32_t>();
    for (auto& extent : tensor.ne) extent = in.get<std::int64_t>();
    for (auto& stride : tensor.nb) stride = in.get<std::uint64_t>();
    const std::size_t params = in.get<std::uint8_t>();
    if (params > sizeof tensor.op_params) in.fail();
    const ByteView values = in.raw(in.ok() ? params : 0);
    if (!values.empty()) std::memcpy(tensor.op_params, values.data(), values.size());
    set_name(tensor, in.text(GGML_MAX_NAME - 1));
}

Error broken(std::size_t number, std::string_view what) {
    return failure(Errc::corrupt, "tensor ", number, " of a message ", what);
}

Result<> check_view(const Record& record, std::span<const Record> earlier) {
    const Record& root = earlier[static_cast<std::size_t>(record.view_of)];
    if (root.view_of >= 0) return broken(earlier.size(), "is a view of a view");
    Tensor joined = record.tensor;
    Tensor below = root.tensor;
    joined.view_src = &below;
    if (!is_within_root(joined, byte_size(joined))) {
        return broken(earlier.size(), "passes the end of what it is a view of");
    }
    return ok();
}

}  // namespace

Record describe_alone(const Tensor& tensor) {
    Record record;
    Tensor& kept = record.tensor;
    kept.type = tensor.type;
    kept.op = tensor.op;
    kept.flags = tensor.flags;
    std::copy(std::begin(tensor.ne), std::end(tensor.ne), std::begin(kept.ne));
    std::copy(std::begin(tensor.nb), std::end(tensor.nb), std::begin(kept.nb));
    std::memcpy(kept.op_params, tensor.op_params, sizeof kept.op_params);
    set_name(kept, name_of(tensor));
    return record;
}

void put_record(ByteWriter& out, const Record& record) {
    const Tensor& tensor = record.tensor;
    out.put(static_cast<std::uint16_t>(tensor.type));
    out.put(static_cast<std::uint16_t>(tensor.op));
    out.put(static_cast<std::int32_t>(tensor.flags));
    for (const std::int64_t extent : tensor.ne) out.put(extent);
    for (const std::uint64_t stride : tensor.nb) out.put(stride);
    const std::size_t params = used_params(tensor);
    out.put(static_cast<std::uint8_t>(params));
    out.raw(std::as_bytes(std::span(tensor.op_params)).first(params));
    out.text(name_of(tensor));
    std::uint16_t present = 0;
    for (std::size_t i = 0; i < record.sources.size(); ++i) {
        if (record.sources[i] >= 0) present |= static_cast<std::uint16_t>(1U << i);
    }
    out.put(present);
    for (const std::int32_t source : record.sources) {
        if (source >= 0) out.put(source);
    }
    out.put(record.view_of);
    if (record.view_of >= 0) out.put(static_cast<std::uint64_t>(tensor.view_offs));
    out.put(record.memory);
    out.put(record.offset);
    out.put(record.uses);
}

Result<Record> get_record(ByteReader& in, std::span<const Record> earlier) {
    const std::size_t number = earlier.size();
    Record record;
    get_tensor(in, record.tensor);
    const auto present = in.get<std::uint16_t>();
    if ((present >> kMaxSources) != 0) in.fail();
    const auto is_earlier = [&](std::int32_t index) {
        return index >= 0 && static_cast<std::size_t>(index) < number;
    };
    for (std::size_t i = 0; i < record.sources.size(); ++i) {
        if ((present >> i & 1) == 0) continue;
        record.sources[i] = in.get<std::int32_t>();
        const bool is_itself = record.sources[i] == static_cast<std::int32_t>(number);
        if (in.ok() && !is_itself && !is_earlier(record.sources[i])) {
            return broken(number, "has an operand that comes later");
        }
    }
    record.view_of = in.get<std::int32_t>();
    if (record.view_of >= 0) record.tensor.view_offs = in.get<std::uint64_t>();
    record.memory = in.get<std::uint32_t>();
    record.offset = in.get<std::uint64_t>();
    record.uses = in.get<std::int32_t>();
    if (!in.ok() || record.uses < 0) return broken(number, "breaks off");
    if (record.view_of < -1 || (record.view_of >= 0 && !is_earlier(record.view_of))) {
        return broken(number, "is a view of one that comes later");
    }
    if (record.tensor.op < 0 || record.tensor.op >= GGML_OP_COUNT) {
        return broken(number, "has an op that does not exist");
    }
    if (ops::runs_callers_function(record.tensor.op)) {
        return broken(number, "runs a function of another process");
    }
    if (auto sound = check_layout(record.tensor); !sound) return std::move(sound).error();
    if (record.view_of >= 0) HEDDLE_TRY(check_view(record, earlier));
    return record;
}

void put_graph(ByteWriter& out, const GraphRecords& graph) {
    out.put(static_cast<std::uint32_t>(graph.records.size()));
    for (const Record& record : graph.records) put_record(out, record);
    out.put(static_cast<std::uint32_t>(graph.nodes.size()));
    for (const std::uint32_t node : graph.nodes) out.put(node);
}

Result<GraphRecords> get_graph(ByteReader& in) {
    GraphRecords graph;
    const std::size_t records = in.get<std::uint32_t>();
    if (records > kMostRecords) {
        return failure(Errc::corrupt, "a graph of ", records, " tensors, more than ", kMostRecords);
    }
    for (std::size_t i = 0; i < records; ++i) {
        HEDDLE_TRY_ASSIGN(const Record record, get_record(in, graph.records));
        graph.records.push_back(record);
    }
    const std::size_t nodes = in.get<std::uint32_t>();
    if (nodes > in.left() / sizeof(std::uint32_t)) in.fail();
    for (std::size_t i = 0; i < nodes && in.ok(); ++i) {
        graph.nodes.push_back(in.get<std::uint32_t>());
        if (graph.nodes.back() >= records) in.fail();
    }
    if (!in.finished()) return failure(Errc::corrupt, "a graph that breaks off");
    return graph;
}

}  // namespace heddle::mpi
