#pragma once

#include <compare>
#include <string>

#include "backends/mpi/digest.hpp"

namespace heddle::mpi {

/// Which content of which file it is. A write that sets `written` back still changes `changed`,
/// which also tells machines apart that share a folder of caches.
struct FileVersion {
    std::uint64_t device = 0, inode = 0, size = 0;
    std::int64_t written = 0, changed = 0;  ///< nanoseconds: its content, anything about it
    auto operator<=>(const FileVersion&) const = default;
};

/// A file that is open for reading.
class OpenFile {
public:
    /// Fails unless it is a regular file.
    static Result<OpenFile> open(const std::string& path);
    OpenFile(OpenFile&& other) noexcept;
    OpenFile& operator=(OpenFile&&) = delete;
    ~OpenFile();

    const std::string& path() const { return path_; }
    std::uint64_t size() const { return version_.size; }
    std::uint64_t inode() const { return version_.inode; }
    std::uint32_t owner() const { return owner_; }

    /// As it was when it was opened, and as it is now.
    const FileVersion& version() const { return version_; }
    FileVersion version_now() const;
    /// Whether it was not written to since; its name and its rights do not matter.
    bool has_same_content() const;

    /// All of it, or a failure.
    Result<> read(std::uint64_t offset, std::span<std::byte> bytes) const;

    /// See digest.hpp. Fails where the file ends before.
    Result<Digest> digest(std::uint64_t offset, std::uint64_t size) const;

private:
    explicit OpenFile(std::string path) : path_(std::move(path)) {}

    std::string path_;
    int file_ = -1;
    FileVersion version_;
    std::uint32_t owner_ = 0;
};

}  // namespace heddle::mpi
