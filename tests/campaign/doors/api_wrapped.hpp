/// Functions that only make sense together: what one makes, the other needs at once.
#pragma once

#include <climits>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml-impl.h"
#include "ggml-opt.h"
#include "gguf.h"

namespace heddle::campaign::wrapped {

inline void graph_plan(ggml_backend_t backend, ggml_cgraph* cgraph) {
    const ggml_backend_graph_plan_t plan = ggml_backend_graph_plan_create(backend, cgraph);
    ggml_backend_graph_plan_compute(backend, plan);
    ggml_backend_graph_plan_free(backend, plan);
}

inline void graph_copy(ggml_backend_t backend, ggml_cgraph* graph) {
    ggml_backend_graph_copy_free(ggml_backend_graph_copy(backend, graph));
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
    const std::string path = HEDDLE_TEST_PLUGINS "/" + name + ".so";
    const ggml_backend_reg_t loaded = ggml_backend_load(path.c_str());
    if (loaded == nullptr) return;
    for (std::size_t i = 0; i < 2; ++i) {
        ggml_backend_free(ggml_backend_dev_init(ggml_backend_reg_dev_get(loaded, i), params));
    }
    ggml_backend_unload(loaded);
}

}  // namespace heddle::campaign::wrapped
