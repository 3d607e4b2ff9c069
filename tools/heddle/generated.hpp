#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "golden/case_file.hpp"

namespace heddle::tool {

/// Cases made up on the spot: shapes, types, strides, views, broadcasting and parameters are drawn
/// from `seed`, results computed by the plain definitions of `reference/`. The same arguments give
/// the same cases on every machine.
///
/// Each variant of each op has a plain case, and `per_op` cases that are drawn: ops that are many
/// in one (the functions of UNARY, the weight types of MUL_MAT) have a variant for each. The plain
/// cases, dense operands that no device but a very special one declines, come first. `ops` names
/// the ops wanted, in any case of letters; none: all. Fails if a builder refuses what was made up,
/// which is a mistake here.
Result<std::vector<golden::OpCase>> generate_cases(std::uint64_t seed, int per_op,
                                                   std::span<const std::string> ops);

/// The ops there are cases for.
std::vector<Op> generated_ops();

}  // namespace heddle::tool
