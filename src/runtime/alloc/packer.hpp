#pragma once

#include <cstddef>
#include <span>

#include "core/error.hpp"
#include "runtime/alloc/plan.hpp"

namespace heddle::alloc {

/// The most bytes alive at one time. Fails if all blocks together cannot be counted.
Result<std::size_t> live_bound(std::span<const Block> blocks);

/// Places the blocks of one arena so that those alive at the same time do not overlap, in as few
/// bytes as can be found quickly.
///
/// No chunk exceeds `chunk_limit`, but for a block that is larger by itself: it gets a chunk of its
/// size. Equal blocks give equal results.
Result<Packing> pack(std::span<const Block> blocks, std::size_t chunk_limit);

}  // namespace heddle::alloc
