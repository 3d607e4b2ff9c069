#pragma once

namespace heddle::campaign {

/// For doors that call the C API wrongly: errors are returned, nothing is logged, and what the
/// library keeps in files goes to the scratch folder.
void prepare_for_misuse();

}  // namespace heddle::campaign
