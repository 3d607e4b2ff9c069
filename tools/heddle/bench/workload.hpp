#pragma once

#include <memory>

#include "bench/cases.hpp"
#include "ggml-cpp.h"
#include "target.hpp"
#include "work.hpp"

namespace heddle::tool::bench {

/// A case on a device, ready to run: graphs that compute it several times over. Where weights come
/// from memory, each run takes the next graph, until all weights were used.
class Workload {
public:
    /// Weights that are to come from memory are `memory_bytes` in all, or one more. They lie in
    /// memory of the type `weights_in`; null: in that of everything else. Fails if the op cannot be
    /// built.
    static Result<Workload> make(const Case& what, const Target& target, std::size_t memory_bytes,
                                 ggml_backend_buffer_type_t weights_in = nullptr);

    bool is_declined() const { return declined_; }
    Result<> run();

    int times() const { return times_; }        ///< how often one run computes the op
    const Work& work() const { return work_; }  ///< of one time
    std::size_t weight_bytes() const { return weight_bytes_; }  ///< of all times

private:
    explicit Workload(ggml_backend_t stream) : stream_(stream) {}

    Result<> build(const Case& what, const Target& target, std::size_t memory_bytes,
                   ggml_backend_buffer_type_t weights_in);
    Result<> add_time(const Case& what, Inputs& inputs);
    Result<> place_weights(const Inputs& inputs, ggml_backend_buffer_type_t type);
    Result<> place_others(const Inputs& inputs);
    std::vector<ggml_tensor*> nodes() const;  ///< of all graphs

    ggml_backend_t stream_;
    ggml_context_ptr context_;
    ggml_backend_buffer_ptr weights_, buffer_;
    std::vector<ggml_cgraph*> graphs_;
    std::vector<ggml_tensor*> ends_;  ///< the last tensor of each time
    std::size_t next_ = 0;            ///< graph to run
    int times_ = 1;
    Work work_;
    std::size_t weight_bytes_ = 0;
    bool declined_ = false;
};

}  // namespace heddle::tool::bench
