#pragma once

#include <cstdint>

namespace heddle::vulkan {

/// What is known of a device when a kernel is chosen and recorded.
struct DeviceFacts {
    bool is_software = false;             ///< a driver that computes on the CPU
    bool has_cheap_barriers = true;       ///< in workgroups; not where they run on the CPU
    bool has_integer_dot = false;         ///< products of four bytes at once, in one instruction
    bool has_float16 = false;             ///< arithmetic on half floats
    bool has_matrix_units = false;        ///< of 16 x 16 half floats for subgroups of 32
    std::uint32_t subgroup = 32;          ///< lanes
    std::uint32_t shared_memory = 16384;  ///< bytes of a workgroup
    std::uint32_t workgroup = 128;        ///< invocations at most
    std::uint32_t group_count = 65535;    ///< workgroups along the first axis at most
    std::uint32_t units = 16;             ///< workgroups that keep the device busy, roughly
};

}  // namespace heddle::vulkan
