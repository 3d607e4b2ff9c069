#include "backends/cuda/driver.hpp"

#include <array>
#include <atomic>
#include <cstdio>

namespace heddle::cuda {
namespace {

struct Countdown {
    std::atomic<std::int64_t> left = -1;
    std::atomic<std::int64_t> calls = 0;
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

std::int64_t fail_after(std::int64_t count) {
    countdown().left = count;
    return countdown().calls.exchange(0);
}

bool is_to_fail() {
    ++countdown().calls;
    if (countdown().left < 0) return false;
    return countdown().left-- == 0;
}

std::string describe_bytes(std::size_t size) {
    constexpr std::array units{"bytes", "KiB", "MiB", "GiB", "TiB"};
    double amount = static_cast<double>(size);
    std::size_t unit = 0;
    while (amount >= 1024 && unit + 1 < units.size()) amount /= 1024, ++unit;
    std::array<char, 48> words{};
    std::snprintf(words.data(), words.size(), unit == 0 ? "%.0f %s" : "%.1f %s", amount,
                  units[unit]);
    return words.data();
}

}  // namespace heddle::cuda
