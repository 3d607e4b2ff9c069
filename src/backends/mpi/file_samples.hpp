#pragma once

#include <string>
#include <vector>

#include "backends/mpi/bytes.hpp"
#include "core/error.hpp"

namespace heddle::mpi {

/// How much of a file is compared with a worker's.
enum class Verify : std::uint8_t {
    sample,  ///< its beginning, and blocks at places drawn at random
    full,    ///< all of it
    off,     ///< its size alone
};

/// Enough of a file to tell whether another one is the same. It tells mistakes, not malice: a
/// worker that lies could say so of any file.
struct FileSamples {
    static constexpr std::size_t kSample = std::size_t{64} << 10, kSamples = 64;
    static constexpr std::size_t kPart = std::size_t{16} << 20, kMost = std::size_t{1} << 16;
    struct Block {
        std::uint64_t offset = 0, hash = 0;
    };
    std::uint64_t size = 0, inode = 0;
    std::uint64_t block = kSample;  ///< bytes of each of these
    std::vector<Block> blocks;
};

/// A file that is open for reading.
class OpenFile {
public:
    /// Fails unless it is a regular file.
    static Result<OpenFile> open(const std::string& path);
    OpenFile(OpenFile&& other) noexcept;
    OpenFile& operator=(OpenFile&&) = delete;
    ~OpenFile();

    std::uint64_t size() const { return size_; }
    std::uint64_t inode() const { return inode_; }
    std::uint32_t owner() const { return owner_; }

    /// All of it, or a failure.
    Result<> read(std::uint64_t offset, std::span<std::byte> bytes) const;

private:
    explicit OpenFile(std::string path) : path_(std::move(path)) {}

    std::string path_;
    int file_ = -1;
    std::uint64_t size_ = 0, inode_ = 0;
    std::uint32_t owner_ = 0;
};

Result<FileSamples> sample_file(const std::string& path, unsigned seed, Verify how);

/// Fails, with where, unless `file` has the same samples.
Result<> compare(const OpenFile& file, const FileSamples& samples, const std::string& name);

void put_samples(ByteWriter& out, const FileSamples& samples);
Result<FileSamples> get_samples(ByteReader& in);

}  // namespace heddle::mpi
