#include "backends/cuda/peer_copies.hpp"

#include <cstdint>
#include <vector>

#include "backends/cuda/memory.hpp"

namespace heddle::cuda {
namespace {

constexpr std::size_t kBytes = std::size_t{1} << 20;  ///< several packets of any link

Result<DeviceMemory> memory_on(int ordinal) {
    HEDDLE_TRY(check(cudaSetDevice(ordinal), "selecting GPU ", ordinal));
    void* memory = nullptr;
    HEDDLE_TRY(check(take([&] { return cudaMalloc(&memory, kBytes); }), "allocating ",
                     describe_bytes(kBytes), " on GPU ", ordinal));
    return DeviceMemory(memory);
}

}  // namespace

bool PeerCopies::are_sound(int from, int to) {
    if (from == to) return true;
    const std::lock_guard lock(mutex_);
    const std::pair pair(from, to);
    if (const auto found = known_.find(pair); found != known_.end()) return found->second;
    const auto tried = trial_(from, to);
    if (!tried) {  // asked again next time
        plugin::log(GGML_LOG_LEVEL_WARN, text("CUDA: copies from GPU ", from, " to GPU ", to,
                                              " were not tried: ", tried.error().message));
        return false;
    }
    if (!*tried) {
        plugin::log(GGML_LOG_LEVEL_WARN,
                    text("CUDA: copies from GPU ", from, " to GPU ", to,
                         " change what they bring; they go through memory of the host"));
    }
    return known_.emplace(pair, *tried).first->second;
}

Result<bool> try_peer_copy(int from, int to) {
    std::vector<std::uint32_t> sent(kBytes / sizeof(std::uint32_t)), received(sent.size());
    std::uint32_t word = 0x9e3779b9u;
    for (std::uint32_t& each : sent) each = word = word * 1664525u + 1013904223u;
    HEDDLE_TRY_ASSIGN(const DeviceMemory target, memory_on(to));
    HEDDLE_TRY_ASSIGN(const DeviceMemory source, memory_on(from));
    const cudaStream_t own = cudaStreamPerThread;
    HEDDLE_TRY(
        check(cudaMemcpyAsync(source.get(), sent.data(), kBytes, cudaMemcpyHostToDevice, own),
              "writing to GPU ", from));
    HEDDLE_TRY(check(copy_across(target.get(), to, source.get(), from, kBytes, own),
                     "copying to GPU ", to));
    HEDDLE_TRY(check(cudaStreamSynchronize(own), "copying to GPU ", to));
    HEDDLE_TRY(check(cudaSetDevice(to), "selecting GPU ", to));
    HEDDLE_TRY(
        check(cudaMemcpyAsync(received.data(), target.get(), kBytes, cudaMemcpyDeviceToHost, own),
              "reading from GPU ", to));
    HEDDLE_TRY(check(cudaStreamSynchronize(own), "reading from GPU ", to));
    return received == sent;
}

PeerCopies& peer_copies() {
    static PeerCopies one(try_peer_copy);
    return one;
}

}  // namespace heddle::cuda
