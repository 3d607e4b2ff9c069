#pragma once

#include "ggml/op_list.h"
#include "ops/every_op.hpp"  // AllOps: every descriptor of this folder, listed by the build

namespace heddle {

/// The rows of all ops, by number.
inline constexpr auto kOps = AllOps::infos();

static_assert(kOps.size() == GGML_OP_COUNT);

}  // namespace heddle
