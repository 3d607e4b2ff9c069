#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "model/generator.hpp"

namespace heddle::tool {

/// The devices a model runs on, besides the processor.
struct DeviceChoice {
    std::vector<Room> rooms;      ///< have memory of their own: layers can be placed there
    std::vector<Device> helpers;  ///< work in the processor's memory
};

/// Where and how a model is to run, as several commands are told.
struct RunsOn {
    std::vector<std::string> devices, budgets;
    std::string policy = "rules";
    std::string instruction_set = "best";  ///< of the processor's kernels
    int threads = 0;                       ///< 0: one for each core
    std::int64_t context = 0;  ///< tokens to make room for; 0: what the model was made for
    bool no_fusion = false;    ///< each node is computed by itself
    bool mapped = false;       ///< weights stay where the file is mapped
    bool join = false;         ///< the devices work as one

    void add_options(CLI::App& command);

    /// What a generator is to be told of it. Sets the processor's instruction set from now on.
    /// Helpers are left out, with a note, where weights of `file` are quantised: they leave those
    /// to the processor, and would round the rest otherwise, so that the model would say other
    /// words with them.
    Result<Generator::Options> generator_options(const ModelFile& file) const;

private:
    Result<DeviceChoice> choose(const ModelFile& file) const;
};

/// What `--device` and `--budget` ask for; all devices with memory of their own if `names` is
/// empty, as the processor needs no help with its products. A name that begins with "sim:" stands
/// for all simulated devices it describes.
Result<DeviceChoice> choose_devices(const std::vector<std::string>& names,
                                    const std::vector<std::string>& budgets);

/// "512M" as bytes; K, M, G, T count in 1024s.
Result<std::size_t> parse_bytes(const std::string& text);

}  // namespace heddle::tool
