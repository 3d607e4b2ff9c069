#pragma once

#include <cstdint>

#include "backends/cpu/dot/dot.hpp"

/// Rows converted between types, by the best instructions of the machine. Any length, any
/// alignment; source and destination do not overlap.
namespace heddle::cpu {

void copy_f32_row(const float* from, void* to, std::int64_t n);

/// Cuts off fractions. What an i32 cannot hold becomes the nearest that it can, a NaN 0.
void f32_to_i32_row(const float* from, void* to, std::int64_t n);

/// Rounds to nearest even, subnormals kept; a NaN keeps its sign only.
void f32_to_f16_row(const float* from, void* to, std::int64_t n);
void f16_to_f32_row(const void* from, float* to, std::int64_t n);

/// Rounds to nearest even, subnormals kept; a NaN becomes quiet.
void f32_to_bf16_row(const float* from, void* to, std::int64_t n);
void bf16_to_f32_row(const void* from, float* to, std::int64_t n);

/// Halves and back: the f32 values that rows of halves would hold.
void round_to_f16_row(const float* from, void* to, std::int64_t n);
void round_to_bf16_row(const float* from, void* to, std::int64_t n);

// The second operands of dot products. Codes are rounded to nearest even. A block with an infinite
// value or a NaN gets the scale NaN, so that products show it.
void encode_q8_0_row(const float* from, void* to, std::int64_t n);
void encode_q8_1_row(const float* from, void* to, std::int64_t n);
void encode_q8_K_row(const float* from, void* to, std::int64_t n);

// What caches of keys and values are made of: the bits of the codecs' plain encoders.
void encode_q4_0_row(const float* from, void* to, std::int64_t n);
void encode_q4_1_row(const float* from, void* to, std::int64_t n);
void encode_q5_0_row(const float* from, void* to, std::int64_t n);
void encode_q5_1_row(const float* from, void* to, std::int64_t n);
void encode_iq4_nl_row(const float* from, void* to, std::int64_t n);

/// Rows of blocks as f32, with the bits that the codec gives. Null where the codec alone can.
DecodeRow exact_decode_of(Type type);

}  // namespace heddle::cpu
