#pragma once

#include <array>
#include <functional>
#include <list>

#include "backends/cuda/plan.hpp"
#include "backends/gpu/replay_key.hpp"

namespace heddle::cuda {

using GraphHandle = Owner<cudaGraph_t, cudaGraphDestroy>;
using ExecutableHandle = Owner<cudaGraphExec_t, cudaGraphExecDestroy>;

/// Work of a stream that was captured, to be launched again as a whole: a launch of its own for
/// every kernel would cost more than many kernels take.
///
/// Work is captured when it is met for the second time; before that only a number is kept of it,
/// since there may never be a second time: a client sees a longer cache with each token. Addresses
/// of scratch memory are part of it, so all of it is forgotten when that moves.
class Replay {
public:
    using Enqueue = std::function<Result<>()>;

    /// Launches what was captured for a graph of this number; false if nothing was. Graphs of one
    /// number that is not 0 are the same.
    Result<bool> launch_known(std::uint64_t uid, cudaStream_t stream);

    /// Launches `plan`, by `enqueue` or by what that enqueued before.
    Result<> launch(const Plan& plan, std::uint64_t uid, cudaStream_t stream,
                    const Enqueue& enqueue);

    /// Nothing of it may be running any more.
    void clear() { entries_.clear(), met_.fill(0); }

private:
    struct Entry {
        gpu::ReplayKey key;
        std::uint64_t uid = 0;
        bool has_failed = false;  ///< it cannot be captured, and is not tried again
        ExecutableHandle executable;
    };

    /// The entry of such a plan, which becomes the first; null if this is the first time.
    Entry* find(const Plan& plan, cudaStream_t stream);
    Entry& make_entry(const Plan& plan, cudaStream_t stream);
    bool was_met(std::uint64_t hash);

    /// Leaves the work in the entry if it can be captured. Fails if `enqueue` does.
    static Result<> capture(Entry& entry, cudaStream_t stream, const Enqueue& enqueue);

    static constexpr std::size_t kMostMet = 64;

    std::list<Entry> entries_;
    std::array<std::uint64_t, kMostMet> met_{};  ///< hashes of work without an entry
    std::size_t next_met_ = 0;                   ///< the oldest one
};

}  // namespace heddle::cuda
