#pragma once

#include <memory>
#include <vector>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "recipe.hpp"

namespace heddle::fuzz {

template <class Handle, void (*release)(Handle*)>
struct Release {
    void operator()(Handle* handle) const { release(handle); }
};
template <class Handle, void (*release)(Handle*)>
using Owned = std::unique_ptr<Handle, Release<Handle, release>>;

using OwnedContext = Owned<ggml_context, ggml_free>;
using OwnedStream = Owned<ggml_backend, ggml_backend_free>;
using OwnedBuffer = Owned<ggml_backend_buffer, ggml_backend_buffer_free>;
using OwnedScheduler = Owned<ggml_backend_sched, ggml_backend_sched_free>;

/// Simulated devices of several kinds: those that can do all, and those that lack some ops. Made
/// once: cases choose among them.
class World {
public:
    /// With `others` of the registry besides.
    explicit World(std::span<const std::string> others = {});

    /// One of the others that is not there; empty if all are.
    const std::string& missing() const { return missing_; }

    std::size_t size() const { return devices_.size(); }
    /// What there is to make cases of.
    Scope scope() const;
    ggml_backend_dev_t device(int number) const {
        return devices_[static_cast<std::size_t>(number)];
    }
    bool is_simulated(int number) const { return number < simulated_; }
    const std::string& kind(int number) const { return kinds_[static_cast<std::size_t>(number)]; }

    /// Null where the library was built without.
    static ggml_backend_dev_t blas();

private:
    std::vector<ggml_backend_dev_t> devices_;
    int simulated_ = 0;               ///< the first of them
    std::vector<std::string> kinds_;  ///< the parameters of each device
    std::string missing_;
};

}  // namespace heddle::fuzz
