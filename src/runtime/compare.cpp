#include "runtime/compare.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "ops/view_op.hpp"
#include "quant/traits.hpp"
#include "runtime/buffer.hpp"
#include "runtime/graph_copy.hpp"
#include "runtime/stream.hpp"
#include "runtime/transfer.hpp"

namespace heddle {
namespace {

Result<> compare_whole(Stream& first, Stream& second, Graph& graph, Graph& other,
                       std::span<const Tensor* const> watched, const PairVisitor& visit) {
    const auto is_watched = [&](const Tensor* node) {
        return std::find(watched.begin(), watched.end(), node) != watched.end();
    };
    if (std::none_of(graph.nodes, graph.nodes + graph.n_nodes, is_watched)) {
        return invalid("graph comparison: none of the ", watched.size(),
                       " nodes to look at is among the ", graph.n_nodes, " nodes of the graph");
    }
    HEDDLE_TRY(compute(first, graph));
    HEDDLE_TRY(compute(second, other));
    for (int i = 0; i < graph.n_nodes; ++i) {
        if (is_watched(graph.nodes[i])) visit({i, graph.nodes[i], other.nodes[i]});
    }
    return ok();
}

Result<> compute_node(Stream& stream, const Graph& graph, int index) {
    Graph node = slice(graph, index, index + 1);
    if (auto computed = compute(stream, node); !computed) {
        return std::move(computed).error().within(
            text("node ", index, ' ', describe(*graph.nodes[index])));
    }
    return ok();
}

Result<> compare_by_node(Stream& first, Stream& second, const Graph& graph, const Graph& other,
                         const PairVisitor& visit) {
    for (int i = 0; i < graph.n_nodes; ++i) {
        HEDDLE_TRY(compute_node(first, graph, i));
        HEDDLE_TRY(compute_node(second, other, i));
        if (is_view_op(graph.nodes[i]->op)) continue;
        if (!visit({i, graph.nodes[i], other.nodes[i]})) break;
    }
    return ok();
}

// ---- measuring ---------------------------------------------------------------------------------

/// The bytes of `tensor` on the host, gaps included.
Result<std::vector<std::byte>> bytes_of(const Tensor& tensor) {
    std::vector<std::byte> bytes(byte_size(tensor));
    if (bytes.empty()) return bytes;
    if (root_buffer(tensor) == nullptr && tensor.data != nullptr) {
        std::memcpy(bytes.data(), tensor.data, bytes.size());  // it lives in a context
        return bytes;
    }
    HEDDLE_TRY(read_tensor(tensor, bytes.data(), 0, bytes.size()));
    return bytes;
}

using RowDecoder = std::function<void(std::span<const std::byte>, std::span<double>)>;

template <class T>
void decode_plain(std::span<const std::byte> row, std::span<double> values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
        T value;
        std::memcpy(&value, row.data() + i * sizeof value, sizeof value);
        values[i] = static_cast<double>(value);
    }
}

/// Turns a dense row of `type` into numbers; empty if there is no way to.
RowDecoder decoder_of(Type type) {
    switch (type) {
        case GGML_TYPE_F32:
            return decode_plain<float>;
        case GGML_TYPE_F64:
            return decode_plain<double>;
        case GGML_TYPE_I8:
            return decode_plain<std::int8_t>;
        case GGML_TYPE_I16:
            return decode_plain<std::int16_t>;
        case GGML_TYPE_I32:
            return decode_plain<std::int32_t>;
        case GGML_TYPE_I64:
            return decode_plain<std::int64_t>;
        default:
            break;
    }
    const auto to_float = quant::traits_of(type).to_float;
    if (to_float == nullptr) return {};
    return [to_float](std::span<const std::byte> row, std::span<double> values) {
        std::vector<float> floats(values.size());
        to_float(row.data(), floats.data(), static_cast<std::int64_t>(floats.size()));
        std::copy(floats.begin(), floats.end(), values.begin());
    };
}

std::size_t row_offset(const Tensor& t, std::int64_t row) {
    const auto at = [&](int dimension, std::int64_t index) {
        return static_cast<std::size_t>(index) * t.nb[dimension];
    };
    return at(1, row % t.ne[1]) + at(2, row / t.ne[1] % t.ne[2]) + at(3, row / (t.ne[1] * t.ne[2]));
}

/// The rows of a tensor, as bytes without gaps and as numbers.
class Rows {
public:
    Rows(const Tensor& tensor, std::vector<std::byte> bytes, RowDecoder decode)
        : tensor_(tensor), all_(std::move(bytes)), decode_(std::move(decode)) {
        row_.resize(row_size(tensor.type, tensor.ne[0]));
        values_.resize(static_cast<std::size_t>(tensor.ne[0]));
    }

    void go_to(std::int64_t number) {
        const TypeInfo& info = type_info(tensor_.type);
        const std::byte* from = all_.data() + row_offset(tensor_, number);
        // Blocks are never taken apart, so only plain types can have gaps inside a row.
        const std::size_t stride = info.block == 1 ? tensor_.nb[0] : info.bytes;
        for (std::size_t at = 0; at < row_.size(); at += info.bytes, from += stride) {
            std::memcpy(&row_[at], from, info.bytes);
        }
        decode_(row_, values_);
    }

    const std::vector<std::byte>& bytes() const { return row_; }
    const std::vector<double>& values() const { return values_; }

private:
    const Tensor& tensor_;
    std::vector<std::byte> all_, row_;
    RowDecoder decode_;
    std::vector<double> values_;
};

/// Adds up how far pairs of values are apart.
class Tally {
public:
    explicit Tally(NodeDifference& result) : result_(result) {}

    void add(double a, double b, std::int64_t number) {
        if (std::isnan(a) && std::isnan(b)) return;
        if (std::isfinite(a) && std::isfinite(b)) return add_finite(a, b, number);
        if (a != b) ++result_.mismatches;
    }

    void finish() {
        // Against a result of zeros only the difference itself is left to tell.
        result_.nmse = squares_ > 0 ? errors_ / squares_ : errors_;
    }

private:
    void add_finite(double a, double b, std::int64_t number) {
        const double difference = std::abs(a - b);
        errors_ += difference * difference;
        squares_ += a * a;
        if (difference == 0) return;
        const double scale = std::max(std::abs(a), std::abs(b));
        result_.max_rel = std::max(result_.max_rel, difference / scale);
        if (difference <= result_.max_abs) return;
        result_.max_abs = difference;
        result_.worst = number;
    }

    NodeDifference& result_;
    double errors_ = 0, squares_ = 0;
};

}  // namespace

Result<> compare_streams(Stream& first, Stream& second, Graph& graph,
                         std::span<const Tensor* const> watched, const PairVisitor& visit) {
    HEDDLE_TRY_ASSIGN(const GraphCopy copy, copy_graph_to(second, graph));
    if (!watched.empty()) {
        return compare_whole(first, second, graph, *copy.graph, watched, visit);
    }
    return compare_by_node(first, second, graph, *copy.graph, visit);
}

Result<NodeDifference> measure(const NodePair& pair) {
    const Tensor &a = *pair.first, &b = *pair.second;
    if (a.type != b.type || !same_shape(a, b)) {
        return invalid("comparing ", describe(a), " with ", describe(b),
                       ": type and extents must be the same");
    }
    const RowDecoder decode = decoder_of(a.type);
    if (!decode) {
        return failure(Errc::unsupported, "comparing ", describe(a), ": values of type ",
                       name_of(a.type), " cannot be read as numbers");
    }
    NodeDifference result{.pair = pair};
    if (is_empty(a)) return result;
    HEDDLE_TRY_ASSIGN(std::vector<std::byte> bytes_a, bytes_of(a));
    HEDDLE_TRY_ASSIGN(std::vector<std::byte> bytes_b, bytes_of(b));
    Rows rows_a(a, std::move(bytes_a), decode), rows_b(b, std::move(bytes_b), decode);
    Tally tally(result);
    for (std::int64_t row = 0, rows = row_count(a); row < rows; ++row) {
        rows_a.go_to(row);
        rows_b.go_to(row);
        result.identical = result.identical && rows_a.bytes() == rows_b.bytes();
        for (std::int64_t i = 0; i < a.ne[0]; ++i) {
            const auto at = static_cast<std::size_t>(i);
            tally.add(rows_a.values()[at], rows_b.values()[at], row * a.ne[0] + i);
        }
    }
    tally.finish();
    return result;
}

Result<> measure_streams(Stream& first, Stream& second, Graph& graph,
                         std::span<const Tensor* const> watched, const DifferenceVisitor& visit) {
    Result<> outcome = ok();
    HEDDLE_TRY(compare_streams(first, second, graph, watched, [&](const NodePair& pair) {
        if (!outcome) return false;
        auto difference = measure(pair);
        if (!difference) {
            outcome = std::move(difference).error();
            return false;
        }
        return visit(*difference);
    }));
    return outcome;
}

}  // namespace heddle
