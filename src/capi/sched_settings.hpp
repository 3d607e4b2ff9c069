#pragma once

#include <string>

namespace heddle::capi {

/// Where measured costs are kept unless a program says otherwise:
/// heddle/costs.tsv in `cache_folder`; empty where there is none.
std::string default_cost_file();

}  // namespace heddle::capi
