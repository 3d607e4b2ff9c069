#include "backends/cuda/faults.hpp"

#include <new>

#include "heddle/backend.hpp"

namespace heddle::cuda {

Result<Faults> Faults::make(const Board& board) {
    Faults faults;
    void *claim = nullptr, *report = nullptr;
    const auto allocate = [&] { return cudaMalloc(&claim, sizeof(unsigned)); };
    HEDDLE_TRY(check(take(allocate), "allocating ", sizeof(unsigned), " bytes on ", board.name));
    faults.claim_ = DeviceMemory(claim);
    HEDDLE_TRY(check(order([&] { return cudaMemset(claim, 0, sizeof(unsigned)); }),
                     "filling memory of ", board.name));
    const auto pin = [&] {
        return cudaHostAlloc(&report, sizeof(IndexFault), cudaHostAllocPortable);
    };
    if (auto pinned = check(take(pin), "page-locking ", sizeof(IndexFault), " bytes"); !pinned) {
        plugin::log(GGML_LOG_LEVEL_WARN,
                    pinned.error().message + "; wrong indices are not reported");
        return faults;
    }
    faults.report_ = PinnedMemory(new (report) IndexFault{});
    return faults;
}

FaultSink Faults::sink() const {
    if (report_.get() == nullptr) return {};
    return {static_cast<unsigned*>(claim_.get()), static_cast<IndexFault*>(report_.get())};
}

Result<> Faults::report(const Board& board, cudaStream_t stream) const {
    volatile IndexFault* const found = sink().report;
    if (found == nullptr || found->is_there == 0) return ok();
    const auto op = static_cast<ggml_op>(found->op);
    const std::int64_t index = found->index, extent = found->extent;
    found->is_there = 0;
    const auto reset = [&] { return cudaMemsetAsync(claim_.get(), 0, sizeof(unsigned), stream); };
    HEDDLE_TRY(check(order(reset), "filling memory of ", board.name));
    return invalid(ggml_op_name(op), " on ", board.name, ": index ", index,
                   " is outside of its table, which has ", extent, " entries");
}

}  // namespace heddle::cuda
