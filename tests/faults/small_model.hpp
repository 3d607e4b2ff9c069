/// One block of a transformer, small enough to run thousands of times.
#pragma once

#include <cstdint>
#include <span>

#include "ggml-backend.h"
#include "ggml-cpp.h"
#include "tests/faults/sweep.hpp"

namespace heddle::faults {

/// Looks up embeddings, attends, and feeds forward. Its tensors have no memory at first.
class SmallModel {
public:
    static constexpr std::int64_t kWidth = 32, kTokens = 8, kWords = 16;
    static constexpr std::size_t kResults = kWidth * kTokens;

    explicit SmallModel(Run& run);

    ggml_context* context() const { return context_.get(); }
    ggml_cgraph* graph() const { return graph_; }
    ggml_tensor* result() const { return result_; }

    /// Fills weights and inputs, which have memory by now, always with the same numbers. What
    /// fails is in heddle_last_error().
    void set_values() const;
    void fill(Run& run) const;

    /// Reads the result and compares it with that of the first run that came here; nothing failed
    /// in that one.
    void check(Run& run) const;

private:
    ggml_tensor* weights(Run& run, std::int64_t columns, std::int64_t rows);

    template <class Function, class... Args>
    ggml_tensor* node(Run& run, Function* function, Args... args) {
        return run.made("a node of the model", [&] { return function(context_.get(), args...); });
    }

    ggml_tensor* attention(Run& run, ggml_tensor* x);

    ggml_context_ptr context_;
    ggml_cgraph* graph_ = nullptr;
    ggml_tensor *words_ = nullptr, *positions_ = nullptr, *result_ = nullptr;
};

}  // namespace heddle::faults
