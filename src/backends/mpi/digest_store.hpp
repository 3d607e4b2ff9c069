#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/mpi/open_file.hpp"

namespace heddle::mpi {

/// Digests of all blocks of a file.
struct FileDigests {
    FileVersion version;
    std::uint64_t block = 0;      ///< bytes of each; the last one may have fewer
    std::vector<Digest> digests;  ///< as many as that takes
};

/// A line of digests.tsv and back. Nothing if it is none, or has not as many digests as it should.
std::string line_of(const FileDigests& file);
std::optional<FileDigests> parse_digests(std::string_view line);

/// Digests of files, so that nothing is hashed twice: in memory, and in a file that later runs
/// read. That may be broken, or written by others meanwhile: lines that are wrong are passed over,
/// and it is replaced as a whole. Where it cannot be written it is done without.
class DigestStore {
public:
    static constexpr std::size_t kLongest = std::size_t{32} << 20;  ///< bytes of the file

    /// `path`: of digests.tsv; empty: in memory only.
    explicit DigestStore(std::string path = {}) : path_(std::move(path)) {}

    /// Of all blocks; what is not known is computed, by several threads. Kept unless the file was
    /// written to meanwhile, or so shortly before that its times may not tell. Fails when `stops`
    /// becomes true.
    Result<std::vector<Digest>> of(const OpenFile& file, std::uint64_t block,
                                   const std::atomic<bool>* stops = nullptr);

    /// Blocks that were hashed so far.
    std::size_t hashed() const { return hashed_; }

private:
    std::optional<std::vector<Digest>> find(const FileVersion& version, std::uint64_t block);
    void keep(FileDigests digests);
    static void add(std::vector<FileDigests>& all, FileDigests digests);
    std::vector<FileDigests> read_kept() const;
    void write_kept(std::span<const FileDigests> all) const;

    const std::string path_;
    std::mutex lock_;
    std::vector<FileDigests> known_;  ///< the last one is the newest
    std::atomic<std::size_t> hashed_{0};
};

}  // namespace heddle::mpi
