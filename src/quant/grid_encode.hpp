#pragma once

#include <cstdint>

/// Encoders of the grid formats, one row each. `importance` has a weight per element, or is null:
/// then the formats that have no weights of their own without it take every weight as one.
namespace heddle::quant {

void encode_iq2_xxs(const float* row, void* blocks, std::int64_t n, const float* importance);
void encode_iq2_xs(const float* row, void* blocks, std::int64_t n, const float* importance);
void encode_iq2_s(const float* row, void* blocks, std::int64_t n, const float* importance);
void encode_iq3_xxs(const float* row, void* blocks, std::int64_t n, const float* importance);
void encode_iq3_s(const float* row, void* blocks, std::int64_t n, const float* importance);
void encode_iq1_s(const float* row, void* blocks, std::int64_t n, const float* importance);
void encode_iq1_m(const float* row, void* blocks, std::int64_t n, const float* importance);

}  // namespace heddle::quant
