/// Functions that only make sense together: what one makes, the other needs at once.
#pragma once

#include <climits>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml-impl.h"
#include "ggml-opt.h"
#include "ggml/ops_math.h"
#include "gguf.h"
#include "tests/campaign/settings.hpp"

namespace heddle::campaign::wrapped {

inline void graph_plan(ggml_backend_t backend, ggml_cgraph* cgraph) {
    const ggml_backend_graph_plan_t plan = ggml_backend_graph_plan_create(backend, cgraph);
    ggml_backend_graph_plan_compute(backend, plan);
    ggml_backend_graph_plan_free(backend, plan);
}

inline void graph_copy(ggml_backend_t backend, ggml_cgraph* graph) {
    ggml_backend_graph_copy_free(ggml_backend_graph_copy(backend, graph));
}

/// Hands a graph to `take` that needs more memory than most that are made here, the more the higher
/// `size` is. It is gone afterwards.
template <class Take>
void with_large_graph(int size, const Take& take) {
    constexpr std::size_t kNodes = 8;
    ggml_context* context = ggml_init(
        {.mem_size = kNodes * ggml_tensor_overhead() + ggml_graph_overhead_custom(kNodes, false),
         .mem_buffer = nullptr,
         .no_alloc = true});
    ggml_cgraph* graph = ggml_new_graph_custom(context, kNodes, false);
    const int doublings = 12 + 2 * (size < 0 ? 0 : size > 4 ? 4 : size);
    ggml_tensor* x = ggml_new_tensor_1d(context, GGML_TYPE_F32, std::int64_t{1} << doublings);
    ggml_build_forward_expand(graph, ggml_sqr(context, x));
    take(graph);
    ggml_free(context);
}

/// Tensors of `graph` get memory that is given up for a larger one: they stay, and know it.
inline void outgrow_allocator(ggml_gallocr_t galloc, ggml_cgraph* graph, int size) {
    ggml_gallocr_alloc_graph(galloc, graph);
    with_large_graph(size, [&](ggml_cgraph* large) { ggml_gallocr_alloc_graph(galloc, large); });
}

inline void outgrow_scheduler(ggml_backend_sched_t sched, ggml_cgraph* graph, int size) {
    ggml_backend_sched_reset(sched);
    ggml_backend_sched_alloc_graph(sched, graph);
    ggml_backend_sched_reset(sched);
    with_large_graph(size, [&](ggml_cgraph* large) {
        ggml_backend_sched_alloc_graph(sched, large);
        ggml_backend_sched_reset(sched);
    });
}

inline ggml_status compute_with_plan(ggml_cgraph* cgraph, int n_threads,
                                     ggml_threadpool* threadpool) {
    ggml_cplan plan = ggml_graph_plan(cgraph, n_threads, threadpool);
    constexpr std::size_t kMost = std::size_t{1} << 26;
    if (plan.work_size > kMost) return GGML_STATUS_ALLOC_FAILED;
    std::vector<std::uint8_t> work(plan.work_size);
    plan.work_data = work.data();
    return ggml_graph_compute(cgraph, &plan);
}

inline void hash_set(std::size_t size) {
    ggml_hash_set set = ggml_hash_set_new(size);
    if (set.keys != nullptr) ggml_hash_set_reset(&set);
    ggml_hash_set_free(&set);
}

inline void aligned_memory(std::size_t size) { ggml_aligned_free(ggml_aligned_malloc(size), size); }

inline void metadata(const gguf_context* file) {
    constexpr std::size_t kMost = std::size_t{1} << 20;
    const std::size_t size = gguf_get_meta_size(file);
    std::vector<std::byte> bytes(size <= kMost ? size : 0);
    gguf_get_meta_data(size <= kMost ? file : nullptr, bytes.data());
}

/// A file knows where the data of its tensors were when they were added, not where they are now.
inline void file_of(const ggml_tensor* tensor, bool only_meta) {
    gguf_context* file = gguf_init_empty();
    gguf_add_tensor(file, tensor);
    std::vector<std::int8_t> bytes;
    gguf_write_to_buf(file, bytes, only_meta);
    gguf_free(gguf_init_from_buffer(bytes.data(), bytes.size(), {true, nullptr}));
    gguf_free(file);
}

inline void predictions(ggml_opt_result_t result) {
    std::int64_t count = 0;
    ggml_opt_result_ndata(result, &count);
    std::vector<std::int32_t> list(static_cast<std::size_t>(count > 0 ? count : 0));
    ggml_opt_result_pred(result, list.data());
}

/// One time in many: what the next case makes again takes longer than all else that cases do.
inline void forget_tables(int number) {
    if (number == INT_MAX) ggml_quantize_free();
}

/// A plug-in of those in src/registry/test_plugins, sound or not: loaded, used, unloaded.
inline void plugin(int which, const char* params) {
    static constexpr const char* kNames[] = {"good",       "other",     "old_version", "no_init",
                                             "throwing",   "null_init", "no_count",    "unnamed",
                                             "half_table", "liar",      "many",        "no_such"};
    const std::string name = kNames[static_cast<unsigned>(which) % std::size(kNames)];
    const std::string path = settings().plugins + "/" + name + ".so";
    const ggml_backend_reg_t loaded = ggml_backend_load(path.c_str());
    if (loaded == nullptr) return;
    for (std::size_t i = 0; i < 2; ++i) {
        ggml_backend_free(ggml_backend_dev_init(ggml_backend_reg_dev_get(loaded, i), params));
    }
    ggml_backend_unload(loaded);
}

}  // namespace heddle::campaign::wrapped
