#pragma once

#include <string>

namespace heddle::campaign {

/// For doors that call the C API wrongly: errors are returned, nothing is logged, and what the
/// library keeps in files goes to `scratch_directory`.
void prepare_for_misuse();

/// Where files go that nobody needs.
const std::string& scratch_directory();

}  // namespace heddle::campaign
