#pragma once

#include "backends/cpu/kernels/attention/flash_attn_cut.hpp"

/// Attention for many queries: tiles of queries and keys, all of it products of matrices.
namespace heddle::cpu {

/// Whether the node has queries enough, and the rows of a unit.
bool is_worth_tiles(const Tensor& node);
std::int64_t tile_unit_rows(const Tensor& node);

/// Bytes that a task needs.
std::size_t tiles_size(const Attention& attention);

/// Whether the instruction set in use has what it takes.
bool has_tiles();

/// Works on one piece, of one unit.
void attend_tiles(const Attention& attention, const Turn& turn, std::byte* memory,
                  const Results& results);

}  // namespace heddle::cpu
