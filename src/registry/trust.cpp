#include "registry/trust.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "core/error.hpp"
#include "registry/search.hpp"

namespace heddle {
namespace fs = std::filesystem;

namespace {

bool has_a_say(uid_t user) {
    struct stat library;
    const bool is_known = stat(own_file().c_str(), &library) == 0;
    return user == 0 || user == geteuid() || (is_known && user == library.st_uid);
}

/// By convention a user's own group has the user's number, and no other member.
bool is_own_group(gid_t group) {
    return group == 0 || (group == getegid() && group == static_cast<gid_t>(geteuid()));
}

/// What speaks against this file or directory, whatever is above it.
std::string objection(const fs::path& path) {
    struct stat status;
    if (stat(path.c_str(), &status) != 0) return {};
    if (!has_a_say(status.st_uid)) {
        return text(path.native(), " belongs to user ", status.st_uid,
                    ", neither to the user of this process nor to the administrator");
    }
    // In a directory with the sticky bit no user can replace the files of others.
    if (S_ISDIR(status.st_mode) && (status.st_mode & S_ISVTX) != 0) return {};
    if ((status.st_mode & S_IWOTH) != 0) return text(path.native(), " can be written by everybody");
    if ((status.st_mode & S_IWGRP) != 0 && !is_own_group(status.st_gid)) {
        return text(path.native(), " can be written by group ", status.st_gid);
    }
    return {};
}

bool holds(const fs::path& directory, const fs::path& file) {
    return std::mismatch(directory.begin(), directory.end(), file.begin(), file.end()).first ==
           directory.end();
}

}  // namespace

std::string distrust(const fs::path& path) {
    std::error_code code;
    const fs::path file = fs::canonical(path, code);
    if (code) return {};
    const fs::path library = fs::weakly_canonical(own_file(), code);
    // Where the name is may be another place than where the file is.
    const fs::path place = fs::canonical(fs::absolute(path, code).parent_path(), code);
    for (const fs::path& begin : {place, file}) {
        for (fs::path part = begin; part.has_relative_path(); part = part.parent_path()) {
            if (part != file && holds(part, library)) break;
            if (std::string reason = objection(part); !reason.empty()) return reason;
        }
    }
    return {};
}

}  // namespace heddle
