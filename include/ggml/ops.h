/// The operations one by one: their list, and the functions that build them.
///
/// Included by `ggml.h`; programs include that one.
#pragma once

#include "op_list.h"
#include "ops_layout.h"
#include "ops_math.h"
#include "ops_nn.h"
#include "ops_reduce.h"
#include "ops_train.h"
