#pragma once

#include <vector>

#include "backends/mpi/digest.hpp"

namespace heddle::mpi {

/// Enough of a file to tell whether another one is the same. It tells mistakes, not a worker that
/// lies, which could say so of any file; with all of its blocks it also tells a file that someone
/// made to look the same.
struct FileSamples {
    static constexpr std::uint64_t kSample = std::uint64_t{64} << 10;
    static constexpr std::size_t kSamples = 64;
    static constexpr std::uint64_t kPart = std::uint64_t{16} << 20;  ///< of files up to 256 GiB
    static constexpr std::size_t kMost = std::size_t{1} << 14;       ///< blocks
    static constexpr std::uint64_t kLongestPart = std::uint64_t{1} << 40;
    struct Block {
        std::uint64_t offset = 0;
        Digest digest{};
    };
    std::uint64_t size = 0;
    std::uint64_t head = 0;  ///< bytes in front of the data; 0: not told
    Digest head_digest{};
    std::uint64_t block = kSample;  ///< bytes of each of these
    bool is_full = false;           ///< they are all of the file, one behind the other
    std::vector<Block> blocks;
};

/// How many blocks a file has.
std::uint64_t block_count(std::uint64_t size, std::uint64_t block);

/// Bytes of the blocks that a whole file is compared in.
std::uint64_t part_of(std::uint64_t size);

void put_samples(ByteWriter& out, const FileSamples& samples);
Result<FileSamples> get_samples(ByteReader& in);

/// Numbers of blocks that differ, which rise.
void put_differences(ByteWriter& out, std::span<const std::uint32_t> blocks);
Result<std::vector<std::uint32_t>> get_differences(ByteReader& in, std::size_t blocks);

}  // namespace heddle::mpi
