#pragma once

#include <filesystem>

#include "worker.hpp"

/// A finding as a text that people read and `campaign --replay` runs.
namespace heddle::campaign {

struct CaseFile {
    std::string door;
    std::string what;
    std::uint64_t seed = 0;
    std::vector<std::uint32_t> choices;
};

/// `DOOR-HASH.case`: findings of one cause have one name.
std::string file_name(const Door& door, const Failure& failure);

std::string to_text(const Door& door, const Failure& failure);

Result<CaseFile> read_case(const std::filesystem::path& path);

}  // namespace heddle::campaign
