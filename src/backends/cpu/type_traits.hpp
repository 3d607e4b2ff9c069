#pragma once

#include "core/type.hpp"
#include "ggml-cpu.h"

namespace heddle::cpu {

/// What the CPU can do with rows of a type: encode them, and multiply them with rows of its dot
/// type. Numbers that name no type share one empty row. The table lives as long as the program.
const ggml_type_traits_cpu& cpu_traits_of(Type type);

}  // namespace heddle::cpu
