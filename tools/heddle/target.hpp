#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "ggml-backend.h"
#include "ggml-cpp.h"
#include "heddle/cpu.h"

namespace heddle::tool {

/// The device of that name; "best" is the one a program would get.
Result<ggml_backend_dev_t> find_device(const std::string& name);

/// A device with a stream, as commands compute on it.
class Target {
public:
    static Result<Target> open(const std::string& name);

    ggml_backend_t stream() const { return stream_.get(); }
    ggml_backend_dev_t device() const { return ggml_backend_get_device(stream_.get()); }
    std::string name() const { return ggml_backend_dev_name(device()); }
    bool is_cpu() const { return ggml_backend_dev_type(device()) == GGML_BACKEND_DEVICE_TYPE_CPU; }

    /// Why the device declines a node that it has declined; empty if it does not say.
    std::string objection(const ggml_tensor& node) const;

    /// False where the device has no threads to set.
    bool set_threads(int threads) const;

    /// The instruction sets that kernels can be run in, best first; empty where there is no choice.
    std::vector<std::string> instruction_sets() const;
    Result<> use_instruction_set(const std::string& name) const;

    /// Whether nodes are computed together. False where the device has no such choice.
    bool set_fusion(heddle_cpu_fusion fusion) const;

private:
    explicit Target(ggml_backend_t stream) : stream_(stream) {}

    void* procedure(const char* name) const;

    ggml_backend_ptr stream_;
};

}  // namespace heddle::tool
