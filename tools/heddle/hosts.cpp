#include "hosts.hpp"

#include <cstdlib>
#include <filesystem>

namespace heddle::tool {

std::string own_path() {
    std::error_code problem;
    const auto path = std::filesystem::read_symlink("/proc/self/exe", problem);
    return problem ? "heddle" : path.string();
}

void use_hosts(const std::string& hosts) {
    if (hosts.empty()) return;
    setenv("HEDDLE_MPI_HOSTS", hosts.c_str(), 1);
    setenv("HEDDLE_MPI_WORKER", (own_path() + " worker").c_str(), 0);
}

}  // namespace heddle::tool
