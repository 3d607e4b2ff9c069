#include "backends/cuda/replay.hpp"

#include <algorithm>

namespace heddle::cuda {
namespace {

constexpr std::size_t kLeastSteps = 4;    ///< fewer are not worth it
constexpr std::size_t kMostEntries = 64;  ///< the one not used for longest goes

Result<> launch_graph(cudaGraphExec_t executable, cudaStream_t stream) {
    return check(order([&] { return cudaGraphLaunch(executable, stream); }),
                 "launching captured work");
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

/// Whether work of this hash came before; from now on it did.
bool Replay::was_met(std::uint64_t hash) {
    if (std::ranges::find(met_, hash) != met_.end()) return true;
    met_[next_met_] = hash;
    next_met_ = (next_met_ + 1) % met_.size();
    return false;
}

Replay::Entry& Replay::make_entry(const Plan& plan, cudaStream_t stream) {
    if (entries_.size() >= kMostEntries) {
        cudaStreamSynchronize(stream);  // it may still run; errors come back at the launch
        entries_.pop_back();
    }
    Entry& entry = entries_.emplace_front();
    for (const Step& step : plan.steps) step.add_to(entry.key);
    return entry;
}

Replay::Entry* Replay::find(const Plan& plan, cudaStream_t stream) {
    gpu::ReplayHash hash;
    for (const Step& step : plan.steps) step.add_to(hash);
    const auto is_it = [&](const Entry& entry) {
        if (entry.key.hash() != hash.value()) return false;
        gpu::ReplayKey::Comparison comparison(entry.key);
        for (const Step& step : plan.steps) step.add_to(comparison);
        return comparison.is_same();
    };
    const auto found = std::ranges::find_if(entries_, is_it);
    if (found == entries_.end()) {
        return was_met(hash.value()) ? &make_entry(plan, stream) : nullptr;
    }
    entries_.splice(entries_.begin(), entries_, found);
    return &entries_.front();
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
    Entry* const entry = find(plan, stream);
    if (entry == nullptr) return enqueue();
    entry->uid = uid;
    if (entry->executable.get() == nullptr && !entry->has_failed) {
        HEDDLE_TRY(capture(*entry, stream, enqueue));
    }
    if (entry->executable.get() == nullptr) return enqueue();
    return launch_graph(entry->executable.get(), stream);
}

}  // namespace heddle::cuda
