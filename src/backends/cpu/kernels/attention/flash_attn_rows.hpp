#pragma once

#include "backends/cpu/kernels/attention/flash_attn_cut.hpp"

/// Attention for few queries: keys and values are read once, where they are.
namespace heddle::cpu {

/// Rows of a unit.
inline constexpr std::int64_t kRowsUnit = 16;

/// Bytes that a task needs.
std::size_t rows_size(const Attention& attention);

/// Heads that a piece may have.
inline constexpr std::int64_t kMostHeads = 32;

/// Works on one piece.
void attend_rows(const Attention& attention, const Turn& turn, std::byte* memory,
                 const Results& results);

}  // namespace heddle::cpu
