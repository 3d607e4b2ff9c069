#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>

#include "backends/mpi/open_file.hpp"

namespace heddle::mpi {

/// Which bytes of a buffer were written from which file here, and not otherwise since. They can be
/// read again when the worker that had them is lost.
class FileRanges {
public:
    void note(std::size_t begin, std::size_t size, std::shared_ptr<const OpenFile> file,
              std::uint64_t place);
    /// They were written otherwise.
    void forget(std::size_t begin, std::size_t size);
    /// Graphs write there, whenever they run: nothing is noted any more.
    void close();

    /// The bytes from `begin` on, as they were written. False if not all of them are from files;
    /// fails where a file was written to since.
    Result<bool> read(std::size_t begin, std::span<std::byte> bytes) const;

private:
    struct Range {
        std::size_t end = 0;
        std::shared_ptr<const OpenFile> file;
        std::uint64_t place = 0;
    };

    std::atomic<bool> is_closed_{false};
    mutable std::mutex lock_;
    std::map<std::size_t, Range> ranges_;  ///< by their beginnings; none overlaps another
};

}  // namespace heddle::mpi
