#pragma once

#include <string>
#include <vector>

#include "model/llama.hpp"

namespace heddle::tool {

/// The devices a model runs on, besides the processor.
struct DeviceChoice {
    std::vector<Room> rooms;      ///< have memory of their own: layers can be placed there
    std::vector<Device> helpers;  ///< work in the processor's memory
};

/// What `--device` and `--budget` ask for; everything there is if `names` is empty. A name that
/// begins with "sim:" stands for all simulated devices it describes.
Result<DeviceChoice> choose_devices(const std::vector<std::string>& names,
                                    const std::vector<std::string>& budgets);

/// "512M" as bytes; K, M, G, T count in 1024s.
Result<std::size_t> parse_bytes(const std::string& text);

/// "layers 0-7 and the output on CPU"
std::string places_text(const std::vector<std::string>& places);

}  // namespace heddle::tool
