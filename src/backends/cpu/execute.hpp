#pragma once

#include "backends/cpu/plan.hpp"
#include "backends/cpu/thread_pool.hpp"

namespace heddle::cpu {

/// Asked after each computed node whether to stop.
struct AbortCheck {
    ggml_abort_callback callback = nullptr;
    void* data = nullptr;

    bool says_stop() const { return callback != nullptr && callback(data); }
};

/// What a plan is run with.
struct Means {
    ThreadPool* pool = nullptr;    ///< preferred; where it is null or busy, kept threads are used
    std::byte* scratch = nullptr;  ///< as large as the plan wants, aligned to 64 bytes
    AbortCheck abort{};
    bool plain = false;  ///< reference mode
};

/// Computes the steps in order; all is done on return. Fails with `aborted` if the check said stop,
/// and with what a kernel says that meets data it cannot compute with; later steps are not begun
/// then.
Result<> execute(const Plan& plan, const Means& means);

}  // namespace heddle::cpu
