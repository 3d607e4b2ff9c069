#pragma once

#include <filesystem>
#include <string>

namespace heddle {

/// Why code from `path` should not run in this process: a user could have put it there who has no
/// other say in what the process runs. Empty if it looks fine, or is not there.
///
/// Those who have a say are the administrator, the user of the process and the owner of this
/// library. The file and every directory above it must belong to one of them, and no other user may
/// write there: not everybody, and no group but the administrator's and the user's own. Directories
/// above this library are not looked at: who can write there can replace the library itself.
std::string distrust(const std::filesystem::path& path);

}  // namespace heddle
