#pragma once

#include "ggml-backend.h"

namespace heddle::tool {

/// Whether the device's code is Heddle's: built in, or a plug-in of Heddle in the directory of this
/// version. Plug-ins of others lie there too; they do not give reasons for what they decline.
bool is_ours(ggml_backend_dev_t device);

}  // namespace heddle::tool
