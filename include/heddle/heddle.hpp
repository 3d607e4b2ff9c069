/// Heddle for C++: describe tensors, write down what is to be computed, run it on every device.
///
///     #include <heddle/heddle.hpp>
///
///     heddle::Result<std::vector<float>> add() {
///         HEDDLE_TRY_ASSIGN(auto context, heddle::Context::make());
///         const heddle::Tensor a = context.tensor(GGML_TYPE_F32, {4}, "a");
///         const heddle::Tensor b = context.tensor(GGML_TYPE_F32, {4}, "b");
///         HEDDLE_TRY_ASSIGN(auto graph, heddle::Graph::of(context, a + b));
///         HEDDLE_TRY_ASSIGN(auto scheduler, heddle::Scheduler::make());
///         HEDDLE_TRY(scheduler.allocate(graph));
///         HEDDLE_TRY(write<float>(a, {1, 2, 3, 4}));
///         HEDDLE_TRY(write<float>(b, {10, 20, 30, 40}));
///         HEDDLE_TRY(scheduler.compute(graph));
///         return read<float>(graph.result());
///     }
///
/// Everything is header-only over the C API (`ggml*.h`, `gguf.h`), which stays within reach:
/// handles give their C pointers with `c()`. Failures are values (`Result`, see result.hpp);
/// nothing aborts, nothing has to be freed by hand.
#pragma once

#include "cpp/buffer.hpp"
#include "cpp/compare.hpp"
#include "cpp/context.hpp"
#include "cpp/device.hpp"
#include "cpp/graph.hpp"
#include "cpp/model_file.hpp"
#include "cpp/op.hpp"
#include "cpp/ops.hpp"
#include "cpp/scheduler.hpp"
#include "result.hpp"
