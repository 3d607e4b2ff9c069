#pragma once

#include <cstdint>

namespace heddle::cuda {

/// What a user may change from outside; the C boundary reads it from the environment.
struct Options {
    int virtual_devices = 0;          ///< above 0: so many devices, in turn on those there are
    bool is_pinned = true;            ///< false: host memory for transfers is ordinary memory
    bool is_managed = false;          ///< device buffers may spill into memory of the host
    bool may_register_host = false;   ///< callers' memory may be page-locked
    bool is_replaying = true;         ///< graphs that come again are launched as a whole
    bool is_fusing = true;            ///< nodes that go together are computed by one kernel
    bool is_reducing = true;          ///< tensors of several devices may be added up
    std::int64_t offload_batch = 32;  ///< rows from which on sending weights pays off
};

}  // namespace heddle::cuda
