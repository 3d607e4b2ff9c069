#include "backends/mpi/file_samples.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <random>

namespace heddle::mpi {
namespace {

/// FNV-1a over words.
std::uint64_t hash_of(ByteView bytes) {
    std::uint64_t hash = 0xCBF29CE484222325;
    while (!bytes.empty()) {
        std::uint64_t word = 0;
        const std::size_t size = std::min(bytes.size(), sizeof word);
        std::memcpy(&word, bytes.data(), size);
        hash = (hash ^ word) * 0x100000001B3;
        hash ^= hash >> 29;
        bytes = bytes.subspan(size);
    }
    return hash;
}

Result<std::uint64_t> hash_block(const OpenFile& file, std::uint64_t offset, std::uint64_t size) {
    Bytes block(static_cast<std::size_t>(std::min(size, file.size() - offset)));
    HEDDLE_TRY(file.read(offset, block));
    return hash_of(block);
}

/// Where blocks begin.
std::vector<std::uint64_t> places(std::uint64_t size, unsigned seed, Verify how) {
    std::vector<std::uint64_t> all;
    std::mt19937_64 random(seed);
    for (std::size_t i = 0; how == Verify::sample && i < FileSamples::kSamples; ++i) {
        all.push_back(i == 0 ? 0 : random() % size);
    }
    for (std::uint64_t at = 0; how == Verify::full && at < size; at += FileSamples::kPart) {
        all.push_back(at);
    }
    return all;
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
    opened.size_ = static_cast<std::uint64_t>(facts.st_size);
    opened.inode_ = facts.st_ino;
    opened.owner_ = facts.st_uid;
    return opened;
}

OpenFile::OpenFile(OpenFile&& other) noexcept
    : path_(std::move(other.path_)),
      file_(std::exchange(other.file_, -1)),
      size_(other.size_),
      inode_(other.inode_),
      owner_(other.owner_) {}

OpenFile::~OpenFile() {
    if (file_ >= 0) close(file_);
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

Result<FileSamples> sample_file(const std::string& path, unsigned seed, Verify how) {
    HEDDLE_TRY_ASSIGN(const OpenFile file, OpenFile::open(path));
    FileSamples samples;
    samples.size = file.size();
    samples.inode = file.inode();
    if (file.size() == 0) return failure(Errc::not_found, path, " is empty");
    if (how == Verify::full) samples.block = FileSamples::kPart;
    for (const std::uint64_t offset : places(file.size(), seed, how)) {
        HEDDLE_TRY_ASSIGN(const std::uint64_t hash, hash_block(file, offset, samples.block));
        samples.blocks.push_back({offset, hash});
    }
    return samples;
}

Result<> compare(const OpenFile& file, const FileSamples& samples, const std::string& name) {
    if (file.size() != samples.size) {
        return failure(Errc::not_found, name, " has ", file.size(), " bytes, not ", samples.size);
    }
    for (const FileSamples::Block& block : samples.blocks) {
        HEDDLE_TRY_ASSIGN(const std::uint64_t hash, hash_block(file, block.offset, samples.block));
        if (hash == block.hash) continue;
        return failure(Errc::not_found, name, " differs from the file here between bytes ",
                       block.offset, " and ", std::min(block.offset + samples.block, samples.size));
    }
    return ok();
}

void put_samples(ByteWriter& out, const FileSamples& samples) {
    out.put(samples.size);
    out.put(samples.block);
    out.put(static_cast<std::uint32_t>(samples.blocks.size()));
    for (const FileSamples::Block& block : samples.blocks) {
        out.put(block.offset);
        out.put(block.hash);
    }
}

Result<FileSamples> get_samples(ByteReader& in) {
    FileSamples samples;
    samples.size = in.get<std::uint64_t>();
    samples.block = in.get<std::uint64_t>();
    const std::size_t count = in.get<std::uint32_t>();
    if (samples.block == 0 || samples.block > FileSamples::kPart || count > FileSamples::kMost) {
        in.fail();
    }
    for (std::size_t i = 0; i < count && in.ok(); ++i) {
        const auto offset = in.get<std::uint64_t>();
        samples.blocks.push_back({offset, in.get<std::uint64_t>()});
        if (offset >= samples.size) in.fail();
    }
    if (!in.finished()) return failure(Errc::corrupt, "samples of a file that break off");
    return samples;
}

}  // namespace heddle::mpi
