#pragma once

#include <vector>

#include "backends/cuda/plan.hpp"

namespace heddle::cuda {

/// Finds launches whose only column of results the next one codes, and lets them leave it coded.
/// The results are written all the same.
void pass_columns(std::vector<Step>& steps);

}  // namespace heddle::cuda
