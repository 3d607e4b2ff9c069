#include "core/whole_file.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace heddle {
namespace {

constexpr std::size_t kBufferSize = 64 * 1024;  // a system call costs less than filling it

/// The folder of `path` with its slash, empty for the current one.
std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/') + 1); }

/// The file that `path` leads to, which need not exist.
Result<std::string> without_links(std::string path) {
    constexpr int kMostLinks = 40;  // as the system does
    for (int i = 0; i < kMostLinks; ++i) {
        std::array<char, 4096> link;
        const ssize_t size = readlink(path.c_str(), link.data(), link.size());
        if (size < 0) return path;  // no link, or not there
        const std::string next(link.data(), static_cast<std::size_t>(size));
        path = next.starts_with('/') ? next : folder_of(path) + next;
    }
    return failure(Errc::io, std::strerror(ELOOP));
}

/// The program's stream that writes to this file or socket; -1 if none does.
int output_of_program(const struct stat& status) {
    if (!S_ISREG(status.st_mode) && !S_ISSOCK(status.st_mode)) return -1;  // opened by their names
    for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) {
        struct stat other {};
        if (fstat(stream, &other) != 0) continue;
        if (other.st_dev == status.st_dev && other.st_ino == status.st_ino) return stream;
    }
    return -1;
}

bool is_writable(const std::string& path) {
    return faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) == 0;
}

/// Some file systems have no way to do it; that is no failure to write.
bool is_synchronised(int file) {
    return fsync(file) == 0 || errno == EINVAL || errno == ENOTSUP || errno == ENOSYS;
}

/// So that the name, too, survives a loss of power. The file is complete either way.
void synchronise_folder(const std::string& target) {
    const std::string folder = folder_of(target);
    const int file =
        open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file < 0) return;
    static_cast<void>(is_synchronised(file));
    close(file);
}

}  // namespace

// ---- names for signal handlers -----------------------------------------------------------------

void UnfinishedFiles::add(const std::string& path) noexcept {
    if (path.size() >= kLongestName) return;
    for (Entry& entry : entries_) {
        State expected = free;
        if (!entry.state.compare_exchange_strong(expected, taken)) continue;
        std::memcpy(entry.path.data(), path.c_str(), path.size() + 1);
        entry.state.store(named);
        return;
    }
}

void UnfinishedFiles::remove(const std::string& path) noexcept {
    for (Entry& entry : entries_) {
        if (entry.state.load() == named && path == entry.path.data()) entry.state.store(free);
    }
}

void UnfinishedFiles::unlink_all() const noexcept {
    for (const Entry& entry : entries_) {
        if (entry.state.load() == named) unlink(entry.path.data());
    }
}

// ---- opening -----------------------------------------------------------------------------------

Result<WholeFile> WholeFile::create(const std::string& path, UnfinishedFiles* unfinished) {
    WholeFile file(path, unfinished);
    if (auto opened = file.open(); !opened) {
        return failure(Errc::io, path, ": cannot be written: ", opened.error().message);
    }
    file.buffer_.reserve(kBufferSize);
    return file;
}

Result<> WholeFile::check(const std::string& path) {
    struct stat status {};
    if (stat(path.c_str(), &status) != 0 || S_ISREG(status.st_mode) || S_ISDIR(status.st_mode)) {
        HEDDLE_TRY(create(path));
        return ok();
    }
    if (is_writable(path)) return ok();
    return failure(Errc::io, path, ": cannot be written: ", std::strerror(errno));
}

Result<> WholeFile::open() {
    struct stat status {};
    // The system's own rules about links that others have planted apply to this call.
    const bool exists = stat(path_.c_str(), &status) == 0;
    if (!exists && errno != ENOENT) return failure(Errc::io, std::strerror(errno));
    if (exists && S_ISDIR(status.st_mode)) return failure(Errc::io, std::strerror(EISDIR));
    if (const int stream = exists ? output_of_program(status) : -1; stream >= 0) {
        file_ = fcntl(stream, F_DUPFD_CLOEXEC, 0);  // goes on where the stream is
        if (file_ < 0) return failure(Errc::io, std::strerror(errno));
        return ok();
    }
    if (exists && !S_ISREG(status.st_mode)) return open_in_place(0);
    HEDDLE_TRY_ASSIGN(target_, without_links(path_));
    if (target_.empty() || target_.ends_with('/')) return failure(Errc::io, "is no name of a file");
    // What must not be written must not be replaced either.
    if (exists && !is_writable(path_)) return failure(Errc::io, std::strerror(errno));
    const int problem = open_temporary(exists ? &status : nullptr);
    if (problem == 0) return ok();
    const bool is_refused = problem == EACCES || problem == EPERM || problem == EROFS;
    if (exists && is_refused) return open_in_place(O_TRUNC);
    return failure(Errc::io, std::strerror(problem));
}

Result<> WholeFile::open_in_place(int flags) {
    file_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY | flags);
    if (file_ < 0) return failure(Errc::io, std::strerror(errno));
    return ok();
}

/// With the mode of the file that it will replace, and its owner if that is allowed. Gives the
/// system's error, or 0.
int WholeFile::open_temporary(const struct stat* replaced) {
    std::uint64_t random = 0;  // a name that others cannot foresee
    if (getentropy(&random, sizeof random) != 0) return errno;
    std::array<char, 32> name;
    std::snprintf(name.data(), name.size(), ".heddle-%016llx",
                  static_cast<unsigned long long>(random));
    temporary_ = folder_of(target_) + name.data();
    if (unfinished_ != nullptr) unfinished_->add(temporary_);
    const mode_t mode = replaced == nullptr ? 0666 : 0600;  // the system takes off the umask
    file_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (file_ < 0) {
        const int problem = errno;
        if (unfinished_ != nullptr) unfinished_->remove(temporary_);
        temporary_.clear();
        return problem;
    }
    if (replaced == nullptr) return 0;
    static_cast<void>(fchown(file_, replaced->st_uid, replaced->st_gid) == 0);
    return fchmod(file_, replaced->st_mode & 0777) == 0 ? 0 : errno;
}

// ---- writing -----------------------------------------------------------------------------------

Error WholeFile::failed(int number) const {
    return failure(Errc::io, path_, ": cannot be written: ", std::strerror(number), " after ",
                   written_, " bytes");
}

Result<> WholeFile::write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const std::size_t n = std::min(bytes.size(), kBufferSize - buffer_.size());
        buffer_.insert(buffer_.end(), bytes.begin(),
                       bytes.begin() + static_cast<std::ptrdiff_t>(n));
        bytes = bytes.subspan(n);
        if (buffer_.size() == kBufferSize) HEDDLE_TRY(flush());
    }
    return ok();
}

Result<> WholeFile::flush() {
    std::size_t done = 0;
    while (done < buffer_.size()) {
        const ssize_t n = ::write(file_, buffer_.data() + done, buffer_.size() - done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return failed(errno);
        done += static_cast<std::size_t>(n);
        written_ += static_cast<std::uint64_t>(n);
    }
    buffer_.clear();
    return ok();
}

Result<> WholeFile::finish() {
    HEDDLE_TRY(flush());
    if (!temporary_.empty() && !is_synchronised(file_)) return failed(errno);
    if (close(std::exchange(file_, -1)) != 0 && errno != EINTR) return failed(errno);
    if (temporary_.empty()) return ok();
    if (rename(temporary_.c_str(), target_.c_str()) != 0) return failed(errno);
    if (unfinished_ != nullptr) unfinished_->remove(temporary_);
    temporary_.clear();
    synchronise_folder(target_);
    return ok();
}

void WholeFile::discard() noexcept {
    if (file_ >= 0) close(std::exchange(file_, -1));
    if (temporary_.empty()) return;
    unlink(temporary_.c_str());
    if (unfinished_ != nullptr) unfinished_->remove(temporary_);
    temporary_.clear();
}

WholeFile::WholeFile(WholeFile&& other) noexcept
    : path_(std::move(other.path_)),
      target_(std::move(other.target_)),
      temporary_(std::exchange(other.temporary_, {})),
      unfinished_(other.unfinished_),
      buffer_(std::move(other.buffer_)),
      written_(other.written_),
      file_(std::exchange(other.file_, -1)) {}

WholeFile::~WholeFile() { discard(); }

Result<> write_whole_file(const std::string& path, std::string_view content,
                          UnfinishedFiles* unfinished) {
    HEDDLE_TRY_ASSIGN(WholeFile file, WholeFile::create(path, unfinished));
    HEDDLE_TRY(file.write(content));
    return file.finish();
}

}  // namespace heddle
