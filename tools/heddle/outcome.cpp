#include "outcome.hpp"

#include <fmt/core.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "commands.hpp"

namespace heddle::tool {

int report_outcome(std::string_view command, const Result<>& outcome) {
    if (outcome) return kSuccess;
    fmt::print(stderr, "heddle {}: {}\n", command, outcome.error().message);
    return kFailure;
}

Result<> write_file(const std::string& path, std::string_view content) {
    const std::string unfinished = path + ".unfinished";
    std::ofstream out(unfinished, std::ios::binary);
    out.write(content.data(), static_cast<std::streamsize>(content.size()));
    out.close();
    std::error_code problem;
    if (out) std::filesystem::rename(unfinished, path, problem);
    if (out && !problem) return ok();
    const std::string reason = problem ? problem.message() : std::strerror(errno);
    std::filesystem::remove(unfinished, problem);
    return failure(Errc::io, path, ": cannot be written: ", reason);
}

}  // namespace heddle::tool
