#pragma once

#include "backends/cuda/kernel.hpp"

namespace heddle::cuda {

/// Asks whether an index lies in its table. One that does not is reported to the stream, once: the
/// kernel goes on without it, and the host hears of it when it synchronises.
struct IndexCheck {
    FaultSink sink;
    int op = 0;

    __device__ bool operator()(std::int64_t index, std::int64_t extent) const {
        if (index >= 0 && index < extent) return true;
        if (sink.claim != nullptr && atomicCAS(sink.claim, 0u, 1u) == 0) {
            sink.report->op = op;
            sink.report->index = index;
            sink.report->extent = extent;
            __threadfence_system();  // the host must not see the last word first
            sink.report->is_there = 1;
        }
        return false;
    }
};

inline IndexCheck index_check(const Tensor& node, const Launch& launch) {
    return {launch.faults, static_cast<int>(node.op)};
}

}  // namespace heddle::cuda
