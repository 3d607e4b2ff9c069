#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "backends/gpu/bytes_text.hpp"
#include "core/error.hpp"

/// The CUDA runtime as values: errors are Results with a sentence, handles have owners.
namespace heddle::cuda {

/// Whether the driver's context is lost: all that comes after this fails too.
bool ends_device(cudaError_t status);

/// Success, or a failure whose sentence is `parts` and the driver's words.
template <class... Parts>
Result<> check(cudaError_t status, const Parts&... parts) {
    if (status == cudaSuccess) return ok();
    cudaGetLastError();  // else the next call would report it again
    const Errc code = status == cudaErrorMemoryAllocation ? Errc::out_of_memory : Errc::device;
    return failure(code, parts..., ": ", cudaGetErrorString(status),
                   ends_device(status) ? "; this process cannot use the device any more" : "");
}

/// Whether only one call of the driver fails, or all from that one on, as if the device were lost.
enum class Fault { once, for_good };

/// For tests: the call of `take` or `order` after `count` others fails; -1: none does. Returns how
/// many calls there were since the last time.
std::int64_t fail_after(std::int64_t count, Fault fault = Fault::once);

/// What this call of `take` or `order` is to fail with; success: it is not. `usual` is what a call
/// of its kind fails with.
cudaError_t fault_here(cudaError_t usual);

/// The answer of `call`, which takes something from the driver: memory, a stream, an event, ... All
/// such calls go through here, so that tests can see each of them fail.
template <class Call>
cudaError_t take(const Call& call) {
    const cudaError_t fault = fault_here(cudaErrorMemoryAllocation);
    return fault != cudaSuccess ? fault : call();
}

/// The same for a `call` that queues work or waits for it: copies, launches, events.
template <class Call>
cudaError_t order(const Call& call) {
    const cudaError_t fault = fault_here(cudaErrorUnknown);
    return fault != cudaSuccess ? fault : call();
}

using gpu::describe_bytes;

/// Makes a device the current one of the calling thread, which may have had another or none. The
/// one before is not made current again: that would create a context on a device that is not used.
inline Result<> select_device(int ordinal, const std::string& name) {
    return check(order([&] { return cudaSetDevice(ordinal); }), "selecting ", name);
}

/// Owns a handle of the driver's; `Destroy` frees it.
template <class Handle, cudaError_t (*Destroy)(Handle)>
class Owner {
public:
    Owner() = default;
    explicit Owner(Handle handle) : handle_(handle) {}
    Owner(Owner&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    Owner& operator=(Owner&& other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }
    ~Owner() {
        if (handle_ != nullptr) Destroy(handle_);
    }

    Handle get() const { return handle_; }

private:
    Handle handle_ = nullptr;
};

using StreamHandle = Owner<cudaStream_t, cudaStreamDestroy>;
using EventHandle = Owner<cudaEvent_t, cudaEventDestroy>;
using DeviceMemory = Owner<void*, cudaFree>;
using PinnedMemory = Owner<void*, cudaFreeHost>;

}  // namespace heddle::cuda
