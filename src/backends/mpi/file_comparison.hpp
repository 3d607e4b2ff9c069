#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "backends/mpi/digest_store.hpp"
#include "backends/mpi/file_samples.hpp"

/// Whether a file there is the one here.
namespace heddle::mpi {

/// How much of a file is compared with a worker's.
enum class Verify : std::uint8_t {
    sample,  ///< its head, and blocks at places drawn at random
    full,    ///< all of it
    off,     ///< its size alone
};

Result<FileSamples> sample_file(const OpenFile& file, unsigned seed, Verify how,
                                DigestStore& digests);

/// The blocks that differ, if `file` is of use all the same: all of it was compared, and its head
/// says that the same tensors are at the same places. Fails, with where, if it is of none. `name`
/// is what it is called in that sentence. Fails also when `stops` becomes true.
Result<std::vector<std::uint32_t>> compare(const OpenFile& file, const FileSamples& samples,
                                           const std::string& name, DigestStore& digests,
                                           const std::atomic<bool>* stops = nullptr);

}  // namespace heddle::mpi
