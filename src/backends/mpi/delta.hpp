#pragma once

#include "backends/mpi/bytes.hpp"
#include "core/error.hpp"

/// What changed between two messages of the same length: a graph that a program builds again mostly
/// differs in a few offsets and extents.
namespace heddle::mpi {

/// The ranges of `next` that differ from `base`. Both have the same length.
void put_delta(ByteWriter& out, ByteView base, ByteView next);

/// `base` with the ranges that `in` has, up to its end. Fails unless they come in order, inside it.
Result<Bytes> apply_delta(ByteView base, ByteReader& in);

}  // namespace heddle::mpi
