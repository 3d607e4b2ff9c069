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

Result<> make_file(const std::string& path,
                   const std::function<Result<>(const std::string& unfinished)>& write) {
    const std::string unfinished = path + ".unfinished";
    auto made = write(unfinished);
    std::error_code problem;
    if (made) std::filesystem::rename(unfinished, path, problem);
    if (made && !problem) return ok();
    const std::string reason = made ? problem.message() : made.error().message;
    std::filesystem::remove(unfinished, problem);
    return failure(Errc::io, path, ": cannot be written: ", reason);
}

Result<> write_file(const std::string& path, std::string_view content) {
    return make_file(path, [&](const std::string& unfinished) -> Result<> {
        std::ofstream out(unfinished, std::ios::binary);
        out.write(content.data(), static_cast<std::streamsize>(content.size()));
        out.close();
        if (!out) return failure(Errc::io, std::strerror(errno));
        return ok();
    });
}

}  // namespace heddle::tool
