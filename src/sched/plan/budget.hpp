#pragma once

#include <cstddef>
#include <vector>

#include "runtime/device.hpp"
#include "sched/team.hpp"

namespace heddle::sched {

/// How much memory of a device the scheduler may take, for results and copies of constants.
struct Budget {
    enum class Kind {
        free_share,  ///< half of what is free may go to copies of constants; results take what they
                     ///< need
        bytes,       ///< `amount` for both together
        leave,       ///< everything but the last `amount` bytes
    };
    Kind kind = Kind::free_share;
    std::size_t amount = 0;

    /// Bytes that may still be taken now. `taken` are those of copies of constants, and unless it
    /// is a share, of results too. A device that does not tell its memory has a limit in bytes
    /// only.
    std::size_t limit(const DeviceMemory& memory, std::size_t taken) const;
};

/// One for each runner; those past the end have the default.
using Budgets = std::vector<Budget>;

}  // namespace heddle::sched
