#pragma once

#include "backends/cpu/kernels/vision/sliding_volume.hpp"

namespace heddle::cpu {

/// Writes what a kernel sees at positions `pixels` of a batch: one row of `patch_size` elements
/// each, `pitch` bytes apart, the width varying fastest, then height, depth and channel.
///
/// The type of the data is f32, or that of the patches; those are f32 or f16.
void gather_patches(const SlidingVolume& volume, std::int64_t batch, Range pixels, Type type,
                    std::byte* to, std::size_t pitch);

/// Why there can be no patches of `type`; empty if there can be.
std::string_view patches_objection(const SlidingVolume& volume, Type type);

}  // namespace heddle::cpu
