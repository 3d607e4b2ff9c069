#pragma once

#include "verify_model.hpp"

namespace heddle::tool {

/// Continues the prompts on two devices, always with the likeliest token of the trusted one, so
/// that both have read the same text at every step. Prints where their choices differ, how near the
/// two logits were there, and how far the devices' logits are apart; false if that is more than
/// rounding explains.
Result<bool> verify_text(const ModelCheck& check);

}  // namespace heddle::tool
