#include "backends/mpi/open_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace heddle::mpi {
namespace {

FileVersion version_in(const struct stat& facts) {
    constexpr std::int64_t kSecond = 1'000'000'000;
    return {facts.st_dev, facts.st_ino, static_cast<std::uint64_t>(facts.st_size),
            facts.st_mtim.tv_sec * kSecond + facts.st_mtim.tv_nsec,
            facts.st_ctim.tv_sec * kSecond + facts.st_ctim.tv_nsec};
}

}  // namespace

Result<OpenFile> OpenFile::open(const std::string& path) {
    OpenFile opened(path);
    opened.file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat facts {};
    if (opened.file_ < 0 || fstat(opened.file_, &facts) != 0) {
        return failure(Errc::not_found, path, ": ", std::strerror(errno));
    }
    if (!S_ISREG(facts.st_mode)) return failure(Errc::not_found, path, " is no regular file");
    opened.version_ = version_in(facts);
    opened.owner_ = facts.st_uid;
    return opened;
}

OpenFile::OpenFile(OpenFile&& other) noexcept
    : path_(std::move(other.path_)),
      file_(std::exchange(other.file_, -1)),
      version_(other.version_),
      owner_(other.owner_) {}

OpenFile::~OpenFile() {
    if (file_ >= 0) close(file_);
}

FileVersion OpenFile::version_now() const {
    struct stat facts {};
    return fstat(file_, &facts) == 0 ? version_in(facts) : FileVersion{};
}

bool OpenFile::has_same_content() const {
    const FileVersion now = version_now();
    return now.size == version_.size && now.written == version_.written;
}

Result<> OpenFile::read(std::uint64_t offset, std::span<std::byte> bytes) const {
    while (!bytes.empty()) {
        const ssize_t count = pread(file_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) {
            return failure(Errc::io, path_, ": byte ", offset, " cannot be read: ",
                           count == 0 ? "the file ends before it" : std::strerror(errno));
        }
        offset += static_cast<std::uint64_t>(count);
        bytes = bytes.subspan(static_cast<std::size_t>(count));
    }
    return ok();
}

Result<Digest> OpenFile::digest(std::uint64_t offset, std::uint64_t size) const {
    return digest_of(size,
                     [&](std::uint64_t at, std::size_t part, Bytes& room) -> Result<ByteView> {
                         room.resize(part);
                         HEDDLE_TRY(read(offset + at, room));
                         return ByteView(room);
                     });
}

}  // namespace heddle::mpi
