#pragma once

#include "tests/campaign/doors/gguf_draft.hpp"

namespace heddle::campaign {

/// A model of the llama family that runs in no time, with its structure: to be damaged.
const GgufDraft& small_model();

}  // namespace heddle::campaign
