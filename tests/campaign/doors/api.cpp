// Sequences of calls of the C API, as a program in trouble makes them: objects of all kinds, right
// and wrong arguments, freed in any order that is allowed. Whatever happens there is a status or a
// sentence, and at the end nothing is left.
#include <algorithm>
#include <string>
#include <vector>

#include "tests/campaign/doors/api_arguments.hpp"
#include "tests/campaign/doors/misuse.hpp"

namespace heddle::campaign {
namespace {

/// What programs do most; every second call is one of these.
constexpr std::string_view kCommon[] = {
    "ggml_new_tensor_2d",
    "ggml_new_tensor_4d",
    "ggml_backend_alloc_ctx_tensors",
    "ggml_backend_alloc_ctx_tensors_from_buft",
    "ggml_new_graph",
    "ggml_build_forward_expand",
    "ggml_backend_graph_compute",
    "ggml_backend_graph_compute_async",
    "ggml_backend_sched_alloc_graph",
    "ggml_backend_sched_graph_compute",
    "ggml_backend_sched_graph_compute_async",
    "ggml_backend_sched_reserve",
    "ggml_backend_sched_reset",
    "ggml_backend_sched_set_tensor_backend",
    "ggml_gallocr_reserve",
    "ggml_gallocr_alloc_graph",
    "ggml_backend_tensor_set",
    "ggml_backend_tensor_get",
    "ggml_backend_tensor_copy",
    "ggml_backend_tensor_set_async",
    "ggml_backend_tensor_copy_async",
    "ggml_backend_event_record",
    "ggml_backend_event_wait",
    "ggml_backend_tensor_alloc",
    "ggml_backend_view_init",
    "ggml_set_param",
    "ggml_set_input",
    "ggml_set_output",
    "ggml_set_loss",
    "ggml_build_backward_expand",
    "ggml_graph_compute_with_ctx",
    "ggml_view_2d",
    "ggml_mul_mat",
    "ggml_add",
    "ggml_cpy",
    "ggml_reshape_2d",
    "ggml_permute",
    "ggml_transpose",
    "ggml_opt_prepare_alloc",
    "ggml_opt_alloc",
    "ggml_opt_eval",
    "ggml_opt_epoch",
    "ggml_opt_fit",
    "wrapped::file_of",
    "gguf_set_val_u32",
    "gguf_write_to_file",
    "gguf_init_from_file",
    "ggml_backend_cpu_set_threadpool",
    "ggml_threadpool_pause",
    "ggml_threadpool_resume",
    "wrapped::outgrow_allocator",
    "wrapped::outgrow_scheduler",
    "wrapped::graph_plan",
    "wrapped::graph_copy",
    "wrapped::plugin",
    "wrapped::compute_with_plan",
    "ggml_backend_compare_graph_backend",
    "heddle_sched_explain",
};

std::vector<const ApiFunction*> common_functions() {
    std::vector<const ApiFunction*> found;
    for (const std::string_view name : kCommon) {
        for (const ApiFunction& function : api_functions()) {
            if (function.name == name) found.push_back(&function);
        }
    }
    return found;
}

const ApiFunction& next_function(Choices& choices) {
    static const std::vector<const ApiFunction*> common = common_functions();
    if (choices.below(2) == 0) {
        return *common[choices.below(static_cast<std::uint32_t>(common.size()))];
    }
    const auto all = api_functions();
    return all[choices.below(static_cast<std::uint32_t>(all.size()))];
}

/// Frees one object that may be freed, if there is one.
void free_one(ApiWorld& world, Choices& choices, Trace& trace) {
    std::vector<int> may;
    for (std::size_t i = 0; i < world.objects().size(); ++i) {
        if (world.may_free(static_cast<int>(i))) may.push_back(static_cast<int>(i));
    }
    if (may.empty()) return;
    const int number = may[choices.below(static_cast<std::uint32_t>(may.size()))];
    trace.line("free object ", number);
    world.free(number);
}

}  // namespace

std::string run_api(Choices& choices, Trace& trace) {
    prepare_for_misuse();
    ApiWorld world;
    ApiArguments arguments(world, choices, trace, ApiArguments::Misuse::now_and_then);
    const std::uint32_t steps = choices.below(60) + 1;
    for (std::uint32_t step = 0; step < steps; ++step) {
        if (choices.one_in(16)) {
            free_one(world, choices, trace);
            continue;
        }
        next_function(choices).call(arguments);
    }
    trace.line("free all");
    world.free_all(&choices);
    return {};
}

}  // namespace heddle::campaign
