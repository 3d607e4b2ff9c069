#pragma once

#include "backends/cuda/board.hpp"

namespace heddle::cuda {

/// Where kernels of one stream leave word of an index that points outside of its table.
///
/// The word lies in page-locked memory, so that asking for it costs no more than reading a number.
/// Where no memory can be page-locked, nothing is reported.
class Faults {
public:
    static Result<Faults> make(const Board& board);

    FaultSink sink() const;

    /// Fails, once, if a kernel that has finished left word. What is left while work that comes
    /// after it is still queued on `stream` belongs to the same report.
    Result<> report(const Board& board, cudaStream_t stream) const;

private:
    DeviceMemory claim_;
    PinnedMemory report_;  ///< null: there is none
};

}  // namespace heddle::cuda
