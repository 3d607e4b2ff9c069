#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace heddle::vulkan {

/// What a user may change from outside; the C boundary reads it from the environment.
struct Options {
    std::string loader = "libvulkan.so.1";
    std::optional<std::string> visible;      ///< numbers of the driver's devices, in this order
    bool prefers_host_memory = false;        ///< device buffers lie in memory of the host
    bool uses_visible_device_memory = true;  ///< the host may write device memory itself
    bool may_spill = false;    ///< device buffers go to the host when the device is full
    bool is_fusing = true;     ///< nodes that go together are computed by one kernel
    bool is_replaying = true;  ///< graphs that come again are not recorded again
    bool is_timing = false;    ///< every graph is followed by a table of what its nodes took
    bool uses_float16 = true;
    bool uses_integer_dot = true;
    bool uses_matrix_units = true;
    std::int64_t offload_batch = 32;  ///< rows from which on sending weights pays off
    std::uint64_t buffer_limit = 0;   ///< bytes of one buffer; 0: what the device says
    std::string cache_directory;      ///< of compiled pipelines; empty: none

    // For tests.
    bool forces_integer_dot = false;   ///< also where it is no single instruction
    bool forces_gpu_kernels = false;   ///< kernels are chosen on software as they are on a GPU
    std::uint64_t heap_limit = 0;      ///< bytes that buffers may take together; 0: no limit
    std::uint64_t staging = 4u << 20;  ///< bytes of a stream's ring for transfers
    std::int64_t lose_after = -1;      ///< submissions after which the device counts as lost
};

}  // namespace heddle::vulkan
