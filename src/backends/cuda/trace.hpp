#pragma once

#include <deque>
#include <span>
#include <vector>

#include "backends/cuda/plan.hpp"

namespace heddle::cuda {

/// For each node of `graph` the number of the first of those that one launch computes with it, its
/// own if it is computed alone or not at all. Nodes need no memory.
Result<> find_fused(const Board& board, ggml_cgraph& graph, std::span<int> with);

/// How long the steps of a stream's last graphs took, by events of the device.
class Trace {
public:
    /// Puts an event before and after each step; `enqueue` gets the number of a step.
    template <class Enqueue>
    Result<> note(const Plan& plan, ggml_cgraph& graph, cudaStream_t stream,
                  const Enqueue& enqueue) {
        HEDDLE_TRY_ASSIGN(Record record, begin(plan, graph, stream));
        for (std::size_t i = 0; i < plan.steps.size(); ++i) {
            HEDDLE_TRY(enqueue(i));
            HEDDLE_TRY(mark(record, stream));
        }
        keep(std::move(record));
        return ok();
    }

    /// See heddle_stream_times_t. The stream has been waited for.
    bool times(std::size_t back, std::span<double> seconds) const;

private:
    struct Record {
        std::size_t nodes = 0;
        std::vector<int> first;          ///< node of each step
        std::vector<EventHandle> marks;  ///< one more than steps
    };
    static Result<Record> begin(const Plan& plan, ggml_cgraph& graph, cudaStream_t stream);
    static Result<> mark(Record& record, cudaStream_t stream);
    void keep(Record record);

    std::deque<Record> records_;  ///< the last one first
};

}  // namespace heddle::cuda
