#pragma once

#include <string>
#include <vector>

#include "backends/cuda/driver.hpp"
#include "backends/cuda/kernel.hpp"
#include "backends/cuda/options.hpp"

namespace heddle::cuda {

/// A device as memory, streams and kernels see it. Several virtual devices may share one GPU; they
/// are different devices all the same.
struct Board {
    std::string name;         ///< "CUDA0"
    std::string description;  ///< the product
    std::string id;           ///< address on the bus
    int ordinal = 0;          ///< the driver's number of the GPU
    int sharing = 1;          ///< devices on this GPU
    bool is_integrated = false;
    bool has_virtual_memory = false;
    std::size_t total_memory = 0;
    DeviceFacts facts;
    Options options;

    Result<> select() const { return select_device(ordinal, name); }
};

/// The devices there are, and sentences about those that are left out. Creates no context.
struct Survey {
    std::vector<Board> boards;
    std::vector<std::string> left_out;
};

/// What is asked of the driver for that. Tests answer in its place.
struct DeviceQueries {
    cudaError_t (*driver_version)(int* version);
    cudaError_t (*count)(int* count);
    cudaError_t (*properties)(cudaDeviceProp* properties, int ordinal);
};
Survey survey_devices(const Options& options);
Survey survey_devices(const Options& options, const DeviceQueries& driver);

/// Free and total bytes of a device as the driver reports them, for one of the devices that share
/// it. Creates a context.
struct MemoryReport {
    std::size_t free = 0;
    std::size_t total = 0;
};
Result<MemoryReport> report_memory(const Board& board);

/// Bytes of host memory that can be taken without swapping; 0 if the system does not say.
std::size_t available_host_memory();

}  // namespace heddle::cuda
