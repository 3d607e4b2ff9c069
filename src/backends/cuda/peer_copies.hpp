#pragma once

#include <map>
#include <mutex>
#include <utility>

#include "backends/cuda/driver.hpp"

namespace heddle::cuda {

/// Whether copies from one GPU to another bring what was sent. There are boards where they do not,
/// and the driver does not know it. Each pair is tried once, when it is first used; copies of pairs
/// that failed go through memory of the host, as between devices of different backends.
class PeerCopies {
public:
    /// Sends bytes, reads them back, and compares. Fails if it could not be tried.
    using Trial = Result<bool> (*)(int from, int to);
    explicit PeerCopies(Trial trial) : trial_(trial) {}

    /// Ordinals of the driver. Copies within a GPU are not tried. Any thread may call it.
    bool are_sound(int from, int to);

private:
    const Trial trial_;
    std::mutex mutex_;
    std::map<std::pair<int, int>, bool> known_;
};

/// The trial with real copies. Both may be the same GPU.
Result<bool> try_peer_copy(int from, int to);

/// Of this process.
PeerCopies& peer_copies();

}  // namespace heddle::cuda
