#pragma once

#include <string>
#include <vector>

#include "model/placement.hpp"

/// Where a model runs, in words.
namespace heddle::tool {

/// "layers 0-3 on SIM0, layers 4-7 and the output on SIM1": `places` of layers, then of the output.
std::string places_text(const std::vector<std::string>& places);

/// "SIM1 computed 62 % of the work, SIM0 38 %"; empty if nothing was computed.
std::string work_text(const std::vector<Share>& work);

/// "; joined: SIM0, SIM1", to be put behind something; empty if none are.
std::string joined_text(const std::vector<std::string>& devices);

/// "; LOOM0 left out: no MUL_MAT of q8_0", to be put behind something; empty if nobody is.
std::string left_out_text(const std::vector<LeftOut>& left_out);

/// What `message` says of a device that failed, for readers who know which: what was tried and what
/// the device said, or only the latter if it names a node.
std::string said_once(const std::string& device, const std::string& message);

}  // namespace heddle::tool
