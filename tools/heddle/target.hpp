#pragma once

#include <string>
#include <utility>
#include <vector>

#include "heddle/cpp/device.hpp"
#include "heddle/cpu.h"

namespace heddle::tool {

/// The device of that name; the failure says which one may have been meant.
Result<api::Device> device_named(const std::string& name);

/// "CUDA0,CUDA1" as two names; "sim:devices=2,mem=1G" is one.
std::vector<std::string> device_names(const std::string& list);

/// Whether a name is the file of a plug-in, which stands for its devices.
bool is_plugin_file(std::string_view name);

/// The devices of a plug-in, which is loaded. Fails if it has none here.
Result<std::vector<std::string>> plugin_devices(const std::string& file);

/// The device of that name; "best" is the one a program would get.
Result<api::Device> find_device(const std::string& name);

/// A device with a stream, as commands compute on it.
class Target {
public:
    static Result<Target> open(const std::string& name);

    const api::Stream& stream() const { return stream_; }
    api::Device device() const { return stream_.device(); }
    std::string name() const { return device().name(); }

    /// The instruction sets that kernels can be run in, best first; empty where there is no choice.
    std::vector<std::string> instruction_sets() const;
    Result<> use_instruction_set(const std::string& name) const;

    /// Whether nodes are computed together. False where the device has no such choice.
    bool set_fusion(heddle_cpu_fusion fusion) const;

private:
    explicit Target(api::Stream stream) : stream_(std::move(stream)) {}

    api::Stream stream_;
};

}  // namespace heddle::tool
