#include "reference/values.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/half.hpp"
#include "quant/codec.hpp"

namespace heddle::tool::reference {
namespace {

template <class T>
T load(const std::byte* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

template <class T>
void store(std::byte* to, T value) {
    std::memcpy(to, &value, sizeof value);
}

Result<double> read_element(Type type, const std::byte* from) {
    switch (type) {
        case GGML_TYPE_F32:
            return double{load<float>(from)};
        case GGML_TYPE_F16:
            return double{f16_to_f32(load<std::uint16_t>(from))};
        case GGML_TYPE_BF16:
            return double{bf16_to_f32(load<std::uint16_t>(from))};
        case GGML_TYPE_F64:
            return load<double>(from);
        case GGML_TYPE_I8:
            return double(load<std::int8_t>(from));
        case GGML_TYPE_I16:
            return double(load<std::int16_t>(from));
        case GGML_TYPE_I32:
            return double(load<std::int32_t>(from));
        case GGML_TYPE_I64:
            return double(load<std::int64_t>(from));
        default:
            return failure(Errc::unsupported, "the reference cannot read ", name_of(type));
    }
}

Result<> write_element(Type type, double value, std::byte* to) {
    switch (type) {
        case GGML_TYPE_F32:
            return store(to, static_cast<float>(value)), ok();
        case GGML_TYPE_F16:
            return store(to, f32_to_f16(static_cast<float>(value))), ok();
        case GGML_TYPE_BF16:
            return store(to, f32_to_bf16(static_cast<float>(value))), ok();
        case GGML_TYPE_F64:
            return store(to, value), ok();
        case GGML_TYPE_I8:
            return store(to, static_cast<std::int8_t>(value)), ok();
        case GGML_TYPE_I16:
            return store(to, static_cast<std::int16_t>(value)), ok();
        case GGML_TYPE_I32:
            return store(to, static_cast<std::int32_t>(value)), ok();
        case GGML_TYPE_I64:
            return store(to, static_cast<std::int64_t>(value)), ok();
        default:
            return failure(Errc::unsupported, "the reference cannot write ", name_of(type));
    }
}

/// Where row `r` of the layout begins in its storage.
std::size_t row_offset(const golden::Layout& layout, std::int64_t r) {
    const auto& [n0, n1, n2, n3] = layout.extent;
    const std::size_t i1 = static_cast<std::size_t>(r % n1);
    const std::size_t i2 = static_cast<std::size_t>(r / n1 % n2);
    const std::size_t i3 = static_cast<std::size_t>(r / n1 / n2);
    return layout.offset + i1 * layout.stride[1] + i2 * layout.stride[2] + i3 * layout.stride[3];
}

Result<> check_inside(const golden::Layout& layout, std::size_t size) {
    HEDDLE_TRY_ASSIGN(const std::size_t end, golden::end_of(layout));
    if (end <= size) return ok();
    return invalid("reference: ", name_of(layout.type), describe(layout.extent), " ends at byte ",
                   end, " of a storage of ", size);
}

Result<> encode_row(Type type, std::span<const float> row, std::byte* to) {
    const auto n = static_cast<std::int64_t>(row.size());
    const quant::Codec* codec = quant::codec_of(type);
    if (codec != nullptr && codec->encode != nullptr) {
        codec->encode(row.data(), to, n);
        return ok();
    }
    const std::vector<float> weights(row.size(), 1.0f);
    const bool is_weighted = codec != nullptr && codec->needs_importance;
    return quant::encode_rows(type, row.data(), to, 1, n, is_weighted ? weights.data() : nullptr);
}

}  // namespace

Result<Values> read_values(const golden::Layout& layout, std::span<const std::byte> storage) {
    HEDDLE_TRY(check_inside(layout, storage.size()));
    Values values(layout.extent);
    if (values.count() == 0) return values;
    const quant::Codec* codec = quant::codec_of(layout.type);
    std::vector<float> decoded(static_cast<std::size_t>(layout.extent[0]));
    for (std::int64_t r = 0; r < values.rows(); ++r) {
        const std::byte* from = storage.data() + row_offset(layout, r);
        const std::span<double> row = values.row(r);
        if (codec != nullptr) {
            codec->decode(from, decoded.data(), layout.extent[0]);
            std::ranges::copy(decoded, row.begin());
            continue;
        }
        for (std::size_t i = 0; i < row.size(); ++i) {
            HEDDLE_TRY_ASSIGN(row[i], read_element(layout.type, from + i * layout.stride[0]));
        }
    }
    return values;
}

Result<> write_values(const Values& values, const golden::Layout& layout,
                      std::span<std::byte> storage) {
    HEDDLE_TRY(check_inside(layout, storage.size()));
    if (values.extent() != layout.extent) {
        return invalid("reference: a result of ", describe(values.extent()), " for a node of ",
                       describe(layout.extent));
    }
    if (values.count() == 0) return ok();
    const bool is_blocks = quant::codec_of(layout.type) != nullptr;
    std::vector<float> rounded(static_cast<std::size_t>(layout.extent[0]));
    for (std::int64_t r = 0; r < values.rows(); ++r) {
        std::byte* to = storage.data() + row_offset(layout, r);
        const std::span<const double> row = values.row(r);
        if (is_blocks) {
            std::ranges::transform(row, rounded.begin(), [](double x) { return float(x); });
            HEDDLE_TRY(encode_row(layout.type, rounded, to));
            continue;
        }
        for (std::size_t i = 0; i < row.size(); ++i) {
            HEDDLE_TRY(write_element(layout.type, row[i], to + i * layout.stride[0]));
        }
    }
    return ok();
}

Result<golden::Bytes> encode_dense(Type type, const Values& values) {
    const golden::Layout layout{type, values.extent(), dense_strides(type, values.extent()), 0};
    HEDDLE_TRY_ASSIGN(const std::size_t size, golden::end_of(layout));
    golden::Bytes bytes(size);
    HEDDLE_TRY(write_values(values, layout, bytes));
    return bytes;
}

}  // namespace heddle::tool::reference
