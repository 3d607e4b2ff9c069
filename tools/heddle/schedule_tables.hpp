#pragma once

#include <nlohmann/json.hpp>

/// A schedule, as the library describes it in JSON, in tables for people.
namespace heddle::tool {

/// With predicted and measured times where there are some.
void print_splits(const nlohmann::json& schedule);

/// What devices computed and what was copied, each after the other; either may overlap.
void print_sums(const nlohmann::json& schedule);

/// Every node, and why it is where it is.
void print_nodes(const nlohmann::json& schedule);

}  // namespace heddle::tool
