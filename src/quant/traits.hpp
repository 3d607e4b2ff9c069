#pragma once

#include "core/type.hpp"

namespace heddle::quant {

/// The public row of a type: name, sizes, and the two conversions programs may call.
/// Numbers that name no type share one empty row.
const ggml_type_traits& traits_of(Type type);

// Rows of half floats; the same bits on every machine.
void f16_to_f32_row(const void* halves, float* values, std::int64_t n);
void f32_to_f16_row(const float* values, void* halves, std::int64_t n);
void bf16_to_f32_row(const void* halves, float* values, std::int64_t n);
void f32_to_bf16_row(const float* values, void* halves, std::int64_t n);

}  // namespace heddle::quant
