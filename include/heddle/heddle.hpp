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
/// Header-only over the C API: handles give their C pointers with `c()`. Failures are `Result`s.
///
/// The classes and functions are those of `namespace heddle::api`, which this header opens: users
/// write `heddle::Tensor`. Code of the library itself has the C structs under that name; where it
/// needs the classes too, it includes single headers of `cpp/`, and writes `api::Tensor`.
#pragma once
#if __cplusplus < 202002L
#error "heddle/heddle.hpp needs C++20: -std=c++20"
#endif

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

namespace heddle {
using namespace api;
}
