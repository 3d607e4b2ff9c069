#include "bench/content.hpp"

#include <algorithm>
#include <random>

#include "ggml-backend.h"
#include "heddle/heddle.h"
#include "weight_types.hpp"

namespace heddle::tool::bench {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 20;  ///< bytes written at a time

/// Writes `piece`, which is made of whole elements, over and over.
void write_repeatedly(ggml_tensor* tensor, const std::vector<std::byte>& piece) {
    const std::size_t all = ggml_nbytes(tensor);
    for (std::size_t at = 0; at < all; at += piece.size()) {
        ggml_backend_tensor_set(tensor, piece.data(), at, std::min(piece.size(), all - at));
    }
}

template <class Number>
void write_numbers(ggml_tensor* tensor, const Content& content) {
    std::vector<Number> numbers(static_cast<std::size_t>(ggml_nelements(tensor)));
    // A prime that no extent is a multiple of visits every number once.
    const std::int64_t step = content.kind == Content::Kind::scattered ? 7919 : 1;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        numbers[i] = static_cast<Number>(static_cast<std::int64_t>(i) * step % content.limit);
    }
    ggml_backend_tensor_set(tensor, numbers.data(), 0, numbers.size() * sizeof(Number));
}

}  // namespace

std::vector<ggml_type> measured_types() {
    std::vector<ggml_type> types;
    for (int i = 0; i < GGML_TYPE_COUNT; ++i) {
        const auto type = static_cast<ggml_type>(i);
        if (ggml_blck_size(type) != 0 && ggml_type_name(type) != nullptr) types.push_back(type);
    }
    return types;
}

Result<ggml_type> find_type(const std::string& name) { return type_named(name, measured_types()); }

Result<std::vector<std::byte>> encoded_rows(ggml_type type, std::int64_t columns, std::int64_t rows,
                                            float most) {
    if (columns % ggml_blck_size(type) != 0) {
        return invalid("rows of ", columns, " elements cannot be of type ", ggml_type_name(type),
                       ", whose blocks have ", ggml_blck_size(type));
    }
    // Encoding some types takes long: a few rows are enough.
    const std::int64_t different = std::clamp<std::int64_t>(16384 / columns, 1, rows);
    std::mt19937 random(1);
    std::uniform_real_distribution<float> uniform(-most, most);
    std::vector<float> values(static_cast<std::size_t>(columns * different));
    for (float& value : values) value = uniform(random);
    const std::vector<float> importance(static_cast<std::size_t>(columns), 1.0f);
    const std::size_t row = ggml_row_size(type, columns);
    std::vector<std::byte> bytes(row * static_cast<std::size_t>(rows));
    heddle_clear_error();
    ggml_quantize_chunk(type, values.data(), bytes.data(), 0, different, columns,
                        importance.data());
    if (*heddle_last_error() != '\0') return failure(Errc::unsupported, heddle_last_error());
    const std::size_t made = row * static_cast<std::size_t>(different);
    for (std::size_t at = made; at < bytes.size(); at += made) {
        std::copy_n(bytes.begin(), std::min(made, bytes.size() - at),
                    bytes.begin() + static_cast<std::ptrdiff_t>(at));
    }
    return bytes;
}

Result<> fill(ggml_tensor* tensor, const Content& content) {
    heddle_clear_error();
    const bool can_be_encoded = ggml_is_quantized(tensor->type) || tensor->type == GGML_TYPE_F32 ||
                                tensor->type == GGML_TYPE_F16 || tensor->type == GGML_TYPE_BF16;
    if (content.kind == Content::Kind::zeros ||
        (content.kind == Content::Kind::values && !can_be_encoded)) {
        ggml_backend_tensor_memset(tensor, 0, 0, ggml_nbytes(tensor));
    } else if (content.kind != Content::Kind::values) {
        tensor->type == GGML_TYPE_I64 ? write_numbers<std::int64_t>(tensor, content)
                                      : write_numbers<std::int32_t>(tensor, content);
    } else {
        const std::int64_t all = ggml_nrows(tensor);
        const auto some =
            static_cast<std::int64_t>(kPiece / ggml_row_size(tensor->type, tensor->ne[0]));
        // Memory with a layout of its own takes tensors whole.
        const std::int64_t rows = ggml_backend_buffer_is_host(tensor->buffer)
                                      ? std::clamp<std::int64_t>(some, 1, all)
                                      : all;
        HEDDLE_TRY_ASSIGN(const auto piece, encoded_rows(tensor->type, tensor->ne[0], rows));
        write_repeatedly(tensor, piece);
    }
    if (*heddle_last_error() != '\0') return failure(Errc::device, heddle_last_error());
    return ok();
}

}  // namespace heddle::tool::bench
