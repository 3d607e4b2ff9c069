#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "heddle/heddle.h"

/// What the tests of misuse have in common.
namespace heddle::misuse {

template <auto release>
struct Release {
    template <class T>
    void operator()(T* object) const {
        release(object);
    }
};
using Stream = std::unique_ptr<ggml_backend, Release<ggml_backend_free>>;
using Buffer = std::unique_ptr<ggml_backend_buffer, Release<ggml_backend_buffer_free>>;
using Context = std::unique_ptr<ggml_context, Release<ggml_free>>;
using Scheduler = std::unique_ptr<ggml_backend_sched, Release<ggml_backend_sched_free>>;

/// Functions return instead of stopping the program, for the length of a test. The log is silent.
class Misuse : public testing::Test {
protected:
    Misuse() {
        heddle_set_error_mode(HEDDLE_ERROR_MODE_RETURN);
        heddle_clear_error();
        ggml_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
    }
    ~Misuse() override {
        ggml_log_set(nullptr, nullptr);
        heddle_set_error_mode(HEDDLE_ERROR_MODE_ABORT);
    }

    /// A graph that ends in `result`.
    ggml_cgraph* graph_of(ggml_tensor* result) {
        ggml_cgraph* graph = ggml_new_graph(context.get());
        ggml_build_forward_expand(graph, result);
        return graph;
    }

    /// Memory for all tensors of the context, where `stream` computes.
    Buffer allocate(ggml_backend_t stream) {
        return Buffer(ggml_backend_alloc_ctx_tensors(context.get(), stream));
    }

    ggml_tensor* input() { return ggml_new_tensor_1d(context.get(), GGML_TYPE_F32, 64); }

    Context context{ggml_init({.mem_size = 1 << 20, .mem_buffer = nullptr, .no_alloc = true})};
};

}  // namespace heddle::misuse
