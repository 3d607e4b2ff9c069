#pragma once

#include <cstddef>
#include <functional>

#include "backends/mpi/bytes.hpp"
#include "core/error.hpp"
#include "heddle/backend/buffer.hpp"

/// Parts of tensors in messages: evenly spaced pieces.
namespace heddle::mpi {

using plugin::Pieces;

/// Bytes from the first of the pieces to the end of the last, in the tensor.
std::size_t extent_of(const Pieces& pieces);

/// Cuts pieces into parts that fit into a message each: `emit(part, offset in host memory)`.
using EmitPart = std::function<Result<>(const Pieces& part, std::size_t host_offset)>;
Result<> in_parts(const Pieces& pieces, const EmitPart& emit);

void put_pieces(ByteWriter& out, const Pieces& pieces);

/// In host memory they lie one behind the other. Fails unless they are inside a tensor of `bytes`
/// bytes.
Result<Pieces> get_pieces(ByteReader& in, std::size_t bytes);

/// The pieces themselves, one behind the other; see packing.hpp.
void put_content(ByteWriter& out, const Pieces& pieces, const std::byte* data);

}  // namespace heddle::mpi
