#include "backends/cuda/driver.hpp"

#include <atomic>

namespace heddle::cuda {
namespace {

struct Countdown {
    std::atomic<std::int64_t> left = -1;
    std::atomic<std::int64_t> calls = 0;
    std::atomic<bool> is_for_good = false;
};

Countdown& countdown() {
    static Countdown one;
    return one;
}

}  // namespace

bool ends_device(cudaError_t status) {
    switch (status) {
        case cudaErrorIllegalAddress:
        case cudaErrorMisalignedAddress:
        case cudaErrorInvalidAddressSpace:
        case cudaErrorInvalidPc:
        case cudaErrorIllegalInstruction:
        case cudaErrorHardwareStackError:
        case cudaErrorLaunchFailure:
        case cudaErrorLaunchTimeout:
        case cudaErrorECCUncorrectable:
        case cudaErrorAssert:
        case cudaErrorContained:
        case cudaErrorDevicesUnavailable:
            return true;
        default:
            return false;
    }
}

std::int64_t fail_after(std::int64_t count, Fault fault) {
    countdown().is_for_good = fault == Fault::for_good;
    countdown().left = count;
    return countdown().calls.exchange(0);
}

cudaError_t fault_here(cudaError_t usual) {
    Countdown& one = countdown();
    one.calls.fetch_add(1, std::memory_order_relaxed);
    if (one.left.load(std::memory_order_relaxed) < 0) return cudaSuccess;
    if (one.is_for_good) {
        if (one.left > 0 && one.left-- > 0) return cudaSuccess;
        return cudaErrorDevicesUnavailable;
    }
    return one.left-- == 0 ? usual : cudaSuccess;
}

}  // namespace heddle::cuda
