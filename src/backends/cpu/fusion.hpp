#pragma once

#include <span>

#include "backends/cpu/plan.hpp"

/// Which nodes are computed together.
///
/// Every node is still written, to its own place, by its own kernel: what changes is the order in
/// which memory is read and written. So nothing needs to be known about who else uses a result, and
/// results are the same to the bit. What must hold is that no step reads or writes memory at
/// another time than it would have, as seen from the others; addresses tell, as the plan is made.
namespace heddle::cpu {

/// Binds steps that gain from it, and moves products of the same activations together:
///
/// - beside: products that read the same activations. Threads meet once for all of them.
/// - rows: norms, sums, activations and the like, each of which takes the result of the one before;
///   ROPE and what stores its result. A few rows at a time go through all of them, in the cache.
///   Only where results are larger than caches.
///
/// `always` binds what can be bound, however small.
void fuse(Plan& plan, bool always);

/// Steps bound by rows to the first of `steps`, that one included.
inline std::size_t segment_size(std::span<const Step> steps) {
    std::size_t size = 1;
    while (size < steps.size() && steps[size].bond == Bond::rows) ++size;
    return size;
}

/// Steps that threads compute between two barriers, beginning with the first of `steps`.
inline std::size_t region_size(std::span<const Step> steps) {
    std::size_t size = 1;
    while (size < steps.size() && steps[size].bond != Bond::none) ++size;
    return size;
}

/// Products beside each other, at most.
inline constexpr std::size_t kMostBeside = 6;

/// Scratch memory of the next segment of a region begins so many bytes behind that of this one.
inline std::size_t scratch_of(const Step& first) { return aligned_scratch(first.scratch); }

}  // namespace heddle::cpu
