#pragma once

#include <sys/stat.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"

namespace heddle {

/// Names of files that are not finished, for a program to unlink when a signal ends it. A name is
/// known before its file exists. Names beyond the table's size or length are not kept.
class UnfinishedFiles {
public:
    void add(const std::string& path) noexcept;
    void remove(const std::string& path) noexcept;

    /// Async-signal-safe.
    void unlink_all() const noexcept;

private:
    static constexpr std::size_t kMostNames = 8, kLongestName = 4096;
    enum State : int { free, taken, named };
    struct Entry {
        std::atomic<State> state{free};
        std::array<char, kLongestName> path{};
    };
    std::array<Entry, kMostNames> entries_;
};
static_assert(std::atomic<int>::is_always_lock_free);  // signal handlers read them

/// A file that gets its name when all of it is on disk; until then, and after a failure, what had
/// the name before is untouched.
///
/// The bytes go to a temporary file in the same folder. Symbolic links are followed first, so that
/// the file they lead to is replaced, with its mode. What is no regular file (a device, a FIFO, the
/// program's own output) cannot be replaced: bytes go straight into it. So they do where the folder
/// takes no new files but the file itself may be written.
class WholeFile {
public:
    /// `unfinished`, if any, is told of the temporary file and must outlive this object.
    static Result<WholeFile> create(const std::string& path, UnfinishedFiles* unfinished = nullptr);

    /// Whether `create` would succeed now. Nothing is left behind, and no FIFO is opened.
    static Result<> check(const std::string& path);

    WholeFile(WholeFile&& other) noexcept;
    WholeFile& operator=(WholeFile&&) = delete;
    ~WholeFile();  ///< Without `finish`: as if it had never been.

    /// After a failure the file can only be given up.
    Result<> write(std::span<const std::byte> bytes);
    Result<> write(std::string_view text) { return write(std::as_bytes(std::span(text))); }

    /// The file is complete and has its name.
    Result<> finish();

private:
    WholeFile(std::string path, UnfinishedFiles* unfinished)
        : path_(std::move(path)), unfinished_(unfinished) {}

    Result<> open();
    int open_temporary(const struct stat* replaced);
    Result<> open_in_place(int flags);
    Result<> flush();
    Error failed(int number) const;
    void discard() noexcept;

    std::string path_;       ///< as given
    std::string target_;     ///< what is replaced: links are followed
    std::string temporary_;  ///< empty: bytes go straight into the target
    UnfinishedFiles* unfinished_;
    std::vector<std::byte> buffer_;
    std::uint64_t written_ = 0;  ///< bytes that the system took
    int file_ = -1;
};

/// The whole of `content` as the file `path`, or no change.
Result<> write_whole_file(const std::string& path, std::string_view content,
                          UnfinishedFiles* unfinished = nullptr);

}  // namespace heddle
