#pragma once

#include <string>

namespace heddle::tool {

/// Workers run on these machines from now on: the library starts them when devices are first looked
/// for. They are this very program, unless HEDDLE_MPI_WORKER names another.
void use_hosts(const std::string& hosts);

/// Where this program is, as others can start it.
std::string own_path();

/// What a worker says of itself: version, host, cores and devices, as JSON.
std::string describe_worker();

}  // namespace heddle::tool
