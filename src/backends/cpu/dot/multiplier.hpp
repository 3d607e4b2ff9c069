#pragma once

#include <cstddef>
#include <cstdint>

#include "core/type.hpp"

/// Products of many rows with many rows: what all matrix products and attention are made of.
namespace heddle::cpu {

/// Rows of one type that lie `pitch` bytes apart.
struct MatrixView {
    Type type = GGML_TYPE_F32;
    const std::byte* rows = nullptr;
    std::size_t pitch = 0;
    std::int64_t count = 0;
    std::int64_t depth = 0;  ///< elements of a row
};

/// out[c][r] = the dot product of row r of the view and row b[c], for all rows and columns. The
/// rows of b are prepared (see `Multiplier`). A result does not depend on what else is computed in
/// the same call.
using MultiplyRows = void (*)(const MatrixView& view, const std::byte* const* b, float* const* out,
                              int columns);

/// How rows of a type are multiplied.
struct Multiplier {
    Type dot_type = GGML_TYPE_COUNT;  ///< of rows of b, besides f32
    Type prepared = GGML_TYPE_COUNT;  ///< what rows of b must be turned into

    /// Prepares a row of f32: rounds it to the dot type. Null: it can be used as it is.
    void (*prepare)(const float* from, void* to, std::int64_t n) = nullptr;

    /// Prepares a row of the dot type. Null: it can be used as it is.
    void (*widen)(const void* from, float* to, std::int64_t n) = nullptr;

    MultiplyRows multiply = nullptr;

    explicit operator bool() const { return multiply != nullptr; }
};

/// Empty for types that cannot be multiplied. `multiply` is for the instruction set in use.
Multiplier multiplier_of(Type type);

/// The dot type of `type`, or GGML_TYPE_COUNT.
Type dot_type_of(Type type);

/// For f32, f16, bf16; b is f32. Null for other types.
MultiplyRows plain_multiply_of(Type type);

/// Bytes from one prepared row to the next.
std::size_t prepared_pitch(const Multiplier& multiplier, std::int64_t depth);

/// Prepares one row; `from` is f32 or of the dot type. A row that can be used as it is is copied.
void prepare_row(const Multiplier& multiplier, Type type, const void* from, void* to,
                 std::int64_t depth);

/// Whether rows of `type` must be prepared at all.
bool needs_preparing(const Multiplier& multiplier, Type type);

/// Whether `columns` rows of b, `pitch` bytes apart, are better copied to where they do not crowd
/// the same few places of L1: if there are several, but so few that no micro-panels are made
/// of them, and enough `rows` of a to make up for it.
bool wants_copies(const Multiplier& multiplier, std::size_t pitch, std::int64_t rows,
                  std::int64_t columns);

}  // namespace heddle::cpu
