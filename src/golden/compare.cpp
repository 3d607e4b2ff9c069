#include "golden/compare.hpp"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "core/half.hpp"
#include "quant/codec.hpp"

namespace heddle::golden {
namespace {

template <class T>
T load(const std::byte* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

/// One element of a plain type.
template <class Value>
Value read_element(Type type, const std::byte* from) {
    switch (type) {
        case GGML_TYPE_F32:
            return static_cast<Value>(load<float>(from));
        case GGML_TYPE_F16:
            return static_cast<Value>(f16_to_f32(load<std::uint16_t>(from)));
        case GGML_TYPE_BF16:
            return static_cast<Value>(bf16_to_f32(load<std::uint16_t>(from)));
        case GGML_TYPE_F64:
            return static_cast<Value>(load<double>(from));
        case GGML_TYPE_I8:
            return static_cast<Value>(load<std::int8_t>(from));
        case GGML_TYPE_I16:
            return static_cast<Value>(load<std::int16_t>(from));
        case GGML_TYPE_I32:
            return static_cast<Value>(load<std::int32_t>(from));
        default:
            return static_cast<Value>(load<std::int64_t>(from));
    }
}

bool is_integer(Type type) {
    return type == GGML_TYPE_I8 || type == GGML_TYPE_I16 || type == GGML_TYPE_I32 ||
           type == GGML_TYPE_I64;
}

/// Calls `visit` with the first byte of each row, in logical order.
template <class Visit>
void for_each_row(const Elements& elements, Visit visit) {
    const auto& [n0, n1, n2, n3] = elements.extent;
    if (n0 == 0) return;
    for (std::int64_t i3 = 0; i3 < n3; ++i3) {
        for (std::int64_t i2 = 0; i2 < n2; ++i2) {
            for (std::int64_t i1 = 0; i1 < n1; ++i1) {
                visit(static_cast<std::size_t>(i1) * elements.stride[1] +
                      static_cast<std::size_t>(i2) * elements.stride[2] +
                      static_cast<std::size_t>(i3) * elements.stride[3]);
            }
        }
    }
}

Result<> check_inside(const Elements& elements) {
    HEDDLE_TRY_ASSIGN(const std::size_t end,
                      end_of({elements.type, elements.extent, elements.stride, 0}));
    if (end <= elements.bytes.size()) return ok();
    return invalid("compare: ", name_of(elements.type), describe(elements.extent), " needs ", end,
                   " bytes, there are ", elements.bytes.size());
}

/// All elements in logical order. `Value` is double, or int64_t for integers that must be exact.
template <class Value>
Result<std::vector<Value>> gather(const Elements& elements) {
    HEDDLE_TRY(check_inside(elements));
    std::vector<Value> values;
    if (const quant::Codec* codec = quant::codec_of(elements.type)) {
        if (elements.stride[0] != size_of(elements.type)) {
            return failure(Errc::unsupported, "compare: blocks of ", name_of(elements.type),
                           " do not follow each other");
        }
        std::vector<float> row(static_cast<std::size_t>(elements.extent[0]));
        for_each_row(elements, [&](std::size_t at) {
            codec->decode(elements.bytes.data() + at, row.data(), elements.extent[0]);
            values.insert(values.end(), row.begin(), row.end());
        });
        return values;
    }
    for_each_row(elements, [&](std::size_t at) {
        for (std::int64_t i = 0; i < elements.extent[0]; ++i, at += elements.stride[0]) {
            values.push_back(read_element<Value>(elements.type, elements.bytes.data() + at));
        }
    });
    return values;
}

bool is_infinite(double value) { return std::abs(value) >= FLT_MAX; }

/// Whether both are NaN, both infinite with the same sign, or both neither.
bool same_kind(double a, double b) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
    if (is_infinite(a) || is_infinite(b)) {
        return is_infinite(a) && is_infinite(b) && std::signbit(a) == std::signbit(b);
    }
    return true;
}

Comparison by_nmse(const std::vector<double>& result, const std::vector<double>& recorded,
                   double tolerance) {
    Comparison comparison{.limit = tolerance};
    double difference = 0, magnitude = 0;
    for (std::size_t i = 0; i < result.size(); ++i) {
        const double a = result[i], b = recorded[i];
        if (!same_kind(a, b)) {
            comparison.error = std::numeric_limits<double>::infinity();
            comparison.first = {static_cast<std::int64_t>(i), a, b};
            comparison.what = "NaN or infinity on one side only";
            return comparison;
        }
        if (std::isnan(a) || is_infinite(a)) continue;
        difference += (a - b) * (a - b);
        magnitude += a * a;
    }
    // Nothing but zeros against zeros is no error; against anything else it is a complete one.
    if (difference > 0) comparison.error = difference / magnitude;
    comparison.passed = comparison.error <= tolerance;
    if (comparison.passed) return comparison;
    comparison.what = text("NMSE ", comparison.error, " is above ", tolerance);
    // The first element that uses more than its share of what is allowed.
    const double share = tolerance * magnitude / static_cast<double>(result.size());
    for (std::size_t i = 0; i < result.size() && !comparison.first; ++i) {
        const double a = result[i], b = recorded[i];
        if (std::isnan(a) || is_infinite(a) || (a - b) * (a - b) <= share) continue;
        comparison.first = {static_cast<std::int64_t>(i), a, b};
    }
    return comparison;
}

template <class Value>
Comparison by_equality(const std::vector<Value>& result, const std::vector<Value>& recorded) {
    Comparison comparison{};
    const auto is_nan = [](Value value) {
        if constexpr (std::is_floating_point_v<Value>) return std::isnan(value);
        return false;
    };
    for (std::size_t i = 0; i < result.size(); ++i) {
        const Value a = result[i], b = recorded[i];
        if (a == b || (is_nan(a) && is_nan(b))) continue;
        comparison.error += 1;
        if (comparison.first) continue;
        comparison.first = {static_cast<std::int64_t>(i), static_cast<double>(a),
                            static_cast<double>(b)};
    }
    comparison.passed = comparison.error == 0;
    if (!comparison.passed) comparison.what = text(comparison.error, " elements differ");
    return comparison;
}

void sort_rows(std::vector<std::int64_t>& values, std::int64_t row) {
    if (row == 0) return;
    for (auto begin = values.begin(); begin != values.end(); begin += row) {
        std::sort(begin, begin + row);
    }
}

/// Bytes of the storage that belong to no element of the result must be as recorded.
Comparison compare_rest(const OpCase& golden, std::span<const std::byte> storage) {
    const Layout& layout = golden.result.layout;
    std::vector<bool> written(storage.size());
    const Elements elements{layout.type, layout.extent, layout.stride, storage};
    const std::int64_t blocks = layout.extent[0] / block_size(layout.type);
    for_each_row(elements, [&](std::size_t at) {
        for (std::int64_t i = 0; i < blocks; ++i, at += layout.stride[0]) {
            const auto begin = written.begin() + static_cast<std::ptrdiff_t>(layout.offset + at);
            std::fill_n(begin, size_of(layout.type), true);
        }
    });
    Comparison comparison{.passed = true};
    for (std::size_t i = 0; i < storage.size(); ++i) {
        if (written[i] || storage[i] == golden.result.bytes[i]) continue;
        comparison.passed = false;
        comparison.error = 1;
        comparison.first = {static_cast<std::int64_t>(i),
                            static_cast<double>(std::to_integer<int>(storage[i])),
                            static_cast<double>(std::to_integer<int>(golden.result.bytes[i]))};
        comparison.what =
            text("byte ", i, " of the storage lies beside the result and was written");
        break;
    }
    return comparison;
}

}  // namespace

Elements Elements::dense(Type type, const Extents& extent, std::span<const std::byte> bytes) {
    return {type, extent, dense_strides(type, extent), bytes};
}

Result<Comparison> compare(Rule rule, double tolerance, const Elements& result,
                           const Elements& recorded) {
    if (result.extent != recorded.extent || result.type != recorded.type) {
        return invalid("compare: the result is ", name_of(result.type), describe(result.extent),
                       ", recorded is ", name_of(recorded.type), describe(recorded.extent));
    }
    const bool in_integers =
        rule == Rule::index_set || (rule == Rule::exact && is_integer(result.type));
    if (in_integers) {
        HEDDLE_TRY_ASSIGN(auto ours, gather<std::int64_t>(result));
        HEDDLE_TRY_ASSIGN(auto theirs, gather<std::int64_t>(recorded));
        if (rule == Rule::index_set) {
            sort_rows(ours, result.extent[0]);
            sort_rows(theirs, result.extent[0]);
        }
        return by_equality(ours, theirs);
    }
    HEDDLE_TRY_ASSIGN(const auto ours, gather<double>(result));
    HEDDLE_TRY_ASSIGN(const auto theirs, gather<double>(recorded));
    return rule == Rule::exact ? by_equality(ours, theirs) : by_nmse(ours, theirs, tolerance);
}

Result<Comparison> compare_result(const OpCase& golden, std::span<const std::byte> storage) {
    const Layout& layout = golden.result.layout;
    HEDDLE_TRY_ASSIGN(const std::size_t end, end_of(layout));
    if (end == 0) return Comparison{.passed = true};
    if (end > storage.size()) {
        return invalid(golden.name, ": the result ends at byte ", end, " of a storage of ",
                       storage.size());
    }
    const Elements result{layout.type, layout.extent, layout.stride,
                          storage.subspan(layout.offset)};
    const std::span<const std::byte> bytes(golden.result.bytes);
    if (golden.result.content == Recorded::Content::elements) {
        return compare(golden.rule, golden.tolerance, result,
                       Elements::dense(layout.type, layout.extent, bytes));
    }
    const Elements recorded{layout.type, layout.extent, layout.stride,
                            bytes.subspan(layout.offset)};
    HEDDLE_TRY_ASSIGN(Comparison comparison,
                      compare(golden.rule, golden.tolerance, result, recorded));
    if (!comparison.passed || golden.result.content == Recorded::Content::span) return comparison;
    if (bytes.size() != storage.size()) {
        return invalid(golden.name, ": the storage has ", storage.size(), " bytes, recorded are ",
                       bytes.size());
    }
    Comparison rest = compare_rest(golden, storage);
    return rest.passed ? comparison : rest;
}

Result<Comparison> compare_after(const OpCase& golden, const Source& source,
                                 std::span<const std::byte> storage) {
    if (!source.after) return Comparison{.passed = true};
    const Layout& layout = source.layout;
    const Elements result{layout.type, layout.extent, layout.stride,
                          storage.subspan(layout.offset)};
    const Elements recorded{layout.type, layout.extent, layout.stride,
                            std::span(*source.after).subspan(layout.offset)};
    return compare(golden.rule, golden.tolerance, result, recorded);
}

Result<Comparison> compare_tensor(const GraphCase& golden, const GraphTensor& recorded,
                                  std::span<const std::byte> bytes) {
    const Rule rule = is_integer(recorded.type) ? Rule::exact : Rule::nmse;
    return compare(rule, golden.tolerance, Elements::dense(recorded.type, recorded.extent, bytes),
                   Elements::dense(recorded.type, recorded.extent, recorded.bytes));
}

}  // namespace heddle::golden
