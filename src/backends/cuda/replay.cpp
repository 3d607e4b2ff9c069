#include "backends/cuda/replay.hpp"

#include <algorithm>

namespace heddle::cuda {
namespace {

constexpr std::size_t kLeastSteps = 4;    ///< fewer are not worth it
constexpr std::size_t kMostEntries = 64;  ///< the one not used for longest goes

Result<> launch_graph(cudaGraphExec_t executable, cudaStream_t stream) {
    return check(cudaGraphLaunch(executable, stream), "launching captured work");
}

}  // namespace

Result<bool> Replay::launch_known(std::uint64_t uid, cudaStream_t stream) {
    if (uid == 0) return false;
    const auto is_it = [&](const Entry& entry) {
        return entry.uid == uid && entry.executable.get() != nullptr;
    };
    const auto found = std::ranges::find_if(entries_, is_it);
    if (found == entries_.end()) return false;
    entries_.splice(entries_.begin(), entries_, found);
    HEDDLE_TRY(launch_graph(found->executable.get(), stream));
    return true;
}

Replay::Entry& Replay::find(const Plan& plan, cudaStream_t stream) {
    gpu::ReplayKey key;
    for (const Step& step : plan.steps) step.add_to(key);
    const auto has_key = [&](const Entry& entry) { return entry.key == key; };
    const auto found = std::ranges::find_if(entries_, has_key);
    if (found != entries_.end()) {
        entries_.splice(entries_.begin(), entries_, found);
    } else {
        if (entries_.size() >= kMostEntries) {
            cudaStreamSynchronize(stream);  // it may still run; errors come back at the launch
            entries_.pop_back();
        }
        entries_.emplace_front().key = std::move(key);
    }
    return entries_.front();
}

Result<> Replay::capture(Entry& entry, cudaStream_t stream, const Enqueue& enqueue) {
    entry.has_failed = true;
    // Relaxed: other threads may allocate meanwhile.
    const auto begin = [&] { return cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed); };
    if (take(begin) != cudaSuccess) {
        cudaGetLastError();
        return ok();
    }
    auto enqueued = enqueue();
    cudaGraph_t captured = nullptr;
    const cudaError_t ended = cudaStreamEndCapture(stream, &captured);
    const GraphHandle graph(captured);
    if (!enqueued) return enqueued;
    cudaGraphExec_t executable = nullptr;
    const auto instantiate = [&] { return cudaGraphInstantiate(&executable, captured, 0); };
    if (ended != cudaSuccess || captured == nullptr || take(instantiate) != cudaSuccess) {
        cudaGetLastError();  // the work is enqueued without it
        return ok();
    }
    entry.executable = ExecutableHandle(executable);
    entry.has_failed = false;
    return ok();
}

Result<> Replay::launch(const Plan& plan, std::uint64_t uid, cudaStream_t stream,
                        const Enqueue& enqueue) {
    if (plan.steps.size() < kLeastSteps) return enqueue();
    Entry& entry = find(plan, stream);
    entry.uid = uid;
    const bool is_new = !entry.was_met;
    entry.was_met = true;
    if (entry.executable.get() == nullptr && !is_new && !entry.has_failed) {
        HEDDLE_TRY(capture(entry, stream, enqueue));
    }
    if (entry.executable.get() == nullptr) return enqueue();
    return launch_graph(entry.executable.get(), stream);
}

}  // namespace heddle::cuda
