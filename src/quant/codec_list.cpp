#include <array>
#include <cstddef>
#include <cstring>
#include <vector>

#include "quant/codec.hpp"
#include "quant/traits.hpp"

namespace heddle::quant {
namespace {

/// All rows in one piece, and where each type's row is.
struct Index {
    std::vector<Codec> codecs;
    std::array<const Codec*, GGML_TYPE_COUNT> by_type{};

    Index() {
        for (const auto family : {simple_codecs(), fp4_codecs(), ternary_codecs(), k_codecs(),
                                  nonlinear_codecs(), grid_codecs(), ternary_grid_codecs()})
            codecs.insert(codecs.end(), family.begin(), family.end());
        for (const Codec& codec : codecs) by_type[codec.type] = &codec;
    }
};

const Index& index() {
    static const Index all;
    return all;
}

/// Plain types are converted as one long row; false if `type` is none.
bool encode_plain(Type type, const float* values, void* to, std::size_t count) {
    if (count == 0) return type == GGML_TYPE_F32 || type == GGML_TYPE_F16 || type == GGML_TYPE_BF16;
    if (type == GGML_TYPE_F32)
        std::memmove(to, values, count * sizeof(float));
    else if (type == GGML_TYPE_F16)
        f32_to_f16_row(values, to, static_cast<std::int64_t>(count));
    else if (type == GGML_TYPE_BF16)
        f32_to_bf16_row(values, to, static_cast<std::int64_t>(count));
    else
        return false;
    return true;
}

}  // namespace

std::span<const Codec> all_codecs() { return index().codecs; }

const Codec* codec_of(Type type) {
    const auto number = static_cast<std::size_t>(type);
    return number < index().by_type.size() ? index().by_type[number] : nullptr;
}

Result<> encode_rows(Type type, const float* values, void* blocks, std::int64_t rows,
                     std::int64_t columns, const float* importance) {
    if (rows < 0 || columns < 0) return invalid("encode: ", rows, " rows of ", columns, " columns");
    if (encode_plain(type, values, blocks, static_cast<std::size_t>(rows * columns))) return ok();

    const Codec* codec = codec_of(type);
    if (codec == nullptr || codec->is_operand)
        return failure(Errc::unsupported, "encode: type ", static_cast<int>(type), " (",
                       name_of(type), ") has no encoder");
    if (columns % block_size(type) != 0)
        return invalid("encode: rows of ", columns, " elements are not whole blocks of ",
                       block_size(type), " (", name_of(type), ")");
    if (codec->needs_importance && importance == nullptr)
        return invalid("encode: ", name_of(type), " needs the importance of each column");

    auto* to = static_cast<std::byte*>(blocks);
    for (std::int64_t row = 0; row < rows; ++row, to += row_size(type, columns)) {
        const float* from = values + row * columns;
        if (codec->encode_row != nullptr)
            codec->encode_row(from, to, columns, importance);
        else
            codec->encode(from, to, columns);
    }
    return ok();
}

}  // namespace heddle::quant
