#pragma once

#include <cstddef>
#include <map>
#include <optional>

#include "target.hpp"

namespace heddle::tool::bench {

/// What a device with memory of its own can do at most, measured with the ops it has: copies, and
/// products of large matrices of f16. All figures are per second, 0 where it declines the op.
class DeviceCeilings {
public:
    DeviceCeilings(const Target& target, bool quick) : target_(target), quick_(quick) {}

    /// Bytes read and written where so many of them, both together, are copied.
    Result<double> copy(std::size_t bytes);
    /// The same of as many as no cache holds.
    Result<double> memory() { return copy(memory_bytes()); }
    std::size_t memory_bytes() const { return std::size_t{quick_ ? 64u : 1024u} << 20; }

    /// Operations of a product; a multiplication with its addition counts as two.
    Result<double> product();

private:
    const Target& target_;
    bool quick_;
    std::map<std::size_t, double> copies_;
    std::optional<double> product_;
};

}  // namespace heddle::tool::bench
