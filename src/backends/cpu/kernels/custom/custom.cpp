#include "ops/custom.hpp"

#include <algorithm>

#include "backends/cpu/kernel.hpp"
#include "ggml/ops_train.h"
#include "heddle/exception.hpp"

namespace heddle::cpu {
namespace {

template <class D>
std::string_view objection(const Tensor& node) {
    return unpack<typename D::Params>(node).function != nullptr ? "" : "the function is null";
}

/// As many tasks as the caller wants, however little there may be to do: the caller counts the
/// calls.
template <class D>
Demand demand(const Tensor& node, int threads) {
    const std::int32_t wanted = unpack<typename D::Params>(node).n_tasks;
    const int most = std::max(threads, 1);
    return {.tasks = wanted == GGML_N_TASKS_MAX ? most : std::clamp(wanted, 1, most)};
}

/// Calls the function, which takes the first `operands` operands after the result.
template <class D, std::size_t... operands>
void call(const Tensor& node, const Task& task) {
    const auto params = unpack<typename D::Params>(node);
    // Functions of callers take what they write to as a node.
    auto* result = const_cast<Tensor*>(&node);
    try {
        params.function(result, node.src[operands]..., task.index, task.count, params.user_data);
    } catch (...) {  // on other threads than the caller's nothing would catch it
        task.fail([] { return "the function threw: " + current_exception_as_error().message; });
    }
}

template <class D, std::size_t... operands>
constexpr Kernel kernel_of(std::string_view name) {
    return {.name = name,
            .op = D::id,
            .objection = objection<D>,
            .run = call<D, operands...>,
            .demand = demand<D>};
}

}  // namespace

extern const Kernel kMapCustom1 = kernel_of<ops::MapCustom1, 0>("map_custom1");
extern const Kernel kMapCustom2 = kernel_of<ops::MapCustom2, 0, 1>("map_custom2");
extern const Kernel kMapCustom3 = kernel_of<ops::MapCustom3, 0, 1, 2>("map_custom3");
extern const Kernel kCustom = kernel_of<ops::Custom>("custom");

}  // namespace heddle::cpu
