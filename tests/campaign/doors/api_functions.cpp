// The functions of the C API, each with its parameters drawn by their types.
#include <tuple>

#include "core/hooks.h"
#include "ggml-backend-impl.h"
#include "ggml-quants.h"
#include "ggml/ops.h"
#include "heddle/backend/objection.h"
#include "heddle/gguf.h"
#include "heddle/heddle.h"
#include "heddle/plugins.h"
#include "heddle/sched.h"
#include "heddle/sim.h"
#include "tests/campaign/doors/api_arguments.hpp"
#include "tests/campaign/doors/api_wrapped.hpp"

namespace heddle::campaign {
namespace {

/// Memory whose length only the caller knows.
template <class T>
constexpr bool kIsMemory =
    std::is_pointer_v<T> &&
    (std::is_void_v<std::remove_pointer_t<T>> ||
     std::is_arithmetic_v<
         std::remove_cv_t<std::remove_pointer_t<T>>>)&&!std::is_same_v<T, const char*>;
template <class T>
constexpr bool kIsBlocks = requires(T block) {
    block->qs;
};

template <class R, class... P>
void call_with(std::string_view name, R (*function)(P...),
               std::initializer_list<std::string_view> names, ApiArguments& arguments) {
    arguments.begin(name, names, ((kIsMemory<P> || kIsBlocks<P>) || ...));
    const std::tuple<P...> drawn{arguments.draw<P>()...};  // in order: it is a list
    arguments.ready();
    if constexpr (std::is_void_v<R>) {
        std::apply(function, drawn);
        arguments.end();
    } else {
        arguments.returned(std::apply(function, drawn));
    }
}

/// Functions that print: what follows the text they are given is not drawn.
template <class R, class... P>
void call_with(std::string_view name, R (*function)(P..., ...),
               std::initializer_list<std::string_view> names, ApiArguments& arguments) {
    arguments.begin(name, names, false);
    const std::tuple<P...> drawn{arguments.draw<P>()...};
    arguments.ready();
    std::apply([&](P... each) { function(each...); }, drawn);
    arguments.end();
}

#define HEDDLE_FUNCTION(function, ...)                                                         \
    ApiFunction {                                                                              \
#function, [](ApiArguments &                                                           \
                      arguments) { call_with(#function, function, {__VA_ARGS__}, arguments); } \
    }

constexpr ApiFunction kFunctions[] = {
#include "api_function_table.inc"
    HEDDLE_FUNCTION(wrapped::graph_plan, "backend", "cgraph"),
    HEDDLE_FUNCTION(wrapped::graph_copy, "backend", "graph"),
    HEDDLE_FUNCTION(wrapped::outgrow_allocator, "galloc", "graph", "size"),
    HEDDLE_FUNCTION(wrapped::outgrow_scheduler, "sched", "graph", "size"),
    HEDDLE_FUNCTION(wrapped::compute_with_plan, "cgraph", "n_threads", "threadpool"),
    HEDDLE_FUNCTION(wrapped::hash_set, "size"),
    HEDDLE_FUNCTION(wrapped::aligned_memory, "size"),
    HEDDLE_FUNCTION(wrapped::metadata, "ctx"),
    HEDDLE_FUNCTION(wrapped::file_of, "tensor", "only_meta"),
    HEDDLE_FUNCTION(wrapped::predictions, "result"),
    HEDDLE_FUNCTION(wrapped::plugin, "which", "params"),
    HEDDLE_FUNCTION(wrapped::forget_tables, "number"),
};

}  // namespace

std::span<const ApiFunction> api_functions() { return kFunctions; }

}  // namespace heddle::campaign
