/// Allocations of the whole process, counted and made to fail: those of the program, of every
/// library and of the C++ runtime, in all threads.
#pragma once

namespace heddle::faults {

/// What happens from the chosen allocation on.
enum class Fault {
    once,          ///< that one fails, later ones work again
    from_then_on,  ///< memory is used up: it fails, and so do all later ones
};

/// The `number`-th allocation from now on, counted from 1, fails.
void arm(long number, Fault fault);

/// All allocations work again.
void disarm();

/// Whether an allocation has failed since `arm`.
bool fired();

/// Blocks that were allocated and not freed yet.
long live_blocks();

/// Writes to standard error who asked for the allocation that failed first. Allocates nothing.
void print_failed_allocation();

}  // namespace heddle::faults
