#pragma once

#include <array>
#include <string>

#include "ggml/op_list.h"
#include "recipe.hpp"
#include "world.hpp"

namespace heddle::fuzz {

/// What schedulers had to do: too little of it, and the cases prove nothing.
struct Work {
    std::uint64_t splits = 0, runs = 0, reused = 0, copies = 0, skipped = 0;
    std::uint64_t resized = 0;  ///< graphs that kept the plan of one in another size
    std::uint64_t faults = 0;   ///< runs that failed because a device was told to
    std::uint64_t refused = 0;  ///< cases that were refused, with good reason
    std::array<std::uint64_t, GGML_OP_COUNT> nodes{};  ///< that were run, of each op
};

/// Runs the case over all its devices and plainly on the processor. Empty if both agree in
/// everything, and the caller's graphs are as they were; else what is wrong, with the graph. Adds
/// to `work`.
std::string run_case(const Case& which, const World& world, Work& work);

}  // namespace heddle::fuzz
