#include "backends/mpi/client/file_ranges.hpp"

#include <algorithm>
#include <vector>

namespace heddle::mpi {

void FileRanges::note(std::size_t begin, std::size_t size, std::shared_ptr<const OpenFile> file,
                      std::uint64_t place) {
    forget(begin, size);
    const std::lock_guard guard(lock_);
    if (size > 0 && !is_closed_) ranges_[begin] = {begin + size, std::move(file), place};
}

void FileRanges::forget(std::size_t begin, std::size_t size) {
    if (is_closed_ || size == 0) return;
    const std::lock_guard guard(lock_);
    const std::size_t end = begin + size;
    auto at = ranges_.upper_bound(begin);
    if (at != ranges_.begin()) --at;
    while (at != ranges_.end() && at->first < end) {
        const std::size_t first = at->first;
        const Range range = at->second;
        if (range.end <= begin) {
            ++at;
            continue;
        }
        at = ranges_.erase(at);
        if (first < begin) ranges_[first] = {begin, range.file, range.place};
        if (range.end > end) ranges_[end] = {range.end, range.file, range.place + (end - first)};
    }
}

void FileRanges::close() {
    if (is_closed_.exchange(true)) return;
    const std::lock_guard guard(lock_);
    ranges_.clear();
}

Result<bool> FileRanges::read(std::size_t begin, std::span<std::byte> bytes) const {
    struct Part {
        std::shared_ptr<const OpenFile> file;
        std::uint64_t place;
        std::span<std::byte> bytes;
    };
    std::vector<Part> parts;
    {
        const std::lock_guard guard(lock_);
        while (!bytes.empty()) {
            auto at = ranges_.upper_bound(begin);
            if (at == ranges_.begin()) return false;
            const auto& [first, range] = *--at;
            if (range.end <= begin) return false;
            const std::size_t size = std::min(bytes.size(), range.end - begin);
            parts.push_back({range.file, range.place + (begin - first), bytes.first(size)});
            bytes = bytes.subspan(size);
            begin += size;
        }
    }
    for (const Part& part : parts) {
        if (!part.file->has_same_content()) {
            return failure(Errc::io, part.file->path(),
                           " was written to since weights came from it");
        }
        HEDDLE_TRY(part.file->read(part.place, part.bytes));
    }
    return true;
}

}  // namespace heddle::mpi
