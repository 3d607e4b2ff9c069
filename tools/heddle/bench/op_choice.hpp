#pragma once

#include <string>
#include <vector>

#include "bench/cases.hpp"
#include "bench/output.hpp"

namespace heddle::tool::bench {

/// What `heddle bench ops` is asked for.
struct OpsOptions {
    Common common;
    std::vector<std::string> names, types;
    std::string device = "CPU", instruction_set = "best";
    std::string shapes;  ///< empty: of language models, or of those that have the op
    bool all = false, repacked = false;
};

/// Shapes of every kind of model, where one is asked for.
inline constexpr const char* kEveryModel = "all";

/// The cases of the ops that are asked for; if none is, of those that matter most, or of all.
Result<std::vector<Case>> cases_for(const OpsOptions& options);

}  // namespace heddle::tool::bench
