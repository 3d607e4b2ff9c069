#pragma once

#include "worker.hpp"

namespace heddle::campaign {

/// A smaller case that fails of the same cause, with its trace; the same one if none is found, and
/// null if it does not fail a second time. Every attempt runs in a child of its own.
std::optional<Failure> shrink(Worker& worker, const Door& door, const Failure& failure,
                              int most_attempts, std::chrono::seconds most_time);

}  // namespace heddle::campaign
