#pragma once

#include <string>

namespace heddle::capi {

/// Where measured costs are kept unless a program says otherwise:
/// $XDG_CACHE_HOME/heddle/costs.tsv, else ~/.cache/heddle/costs.tsv; empty where there is neither.
std::string default_cost_file();

}  // namespace heddle::capi
