#include "backends/mpi/client/files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <random>
#include <string_view>
#include <vector>

#include "backends/mpi/file_samples.hpp"
#include "heddle/backend/guard.hpp"

namespace heddle::mpi {
namespace {

constexpr std::size_t kFirst = std::size_t{1} << 20;  ///< of a file that is not known yet
constexpr std::size_t kMore = std::size_t{4} << 10;   ///< elsewhere, once one is

/// A line of /proc/self/maps.
struct Mapping {
    std::uint64_t begin = 0, end = 0;
    bool is_writable = false, is_shared = false;
    FilePart part;
};

std::optional<Mapping> parse(const std::string& line) {
    Mapping mapping;
    char flags[5] = {};
    unsigned long begin = 0, end = 0, offset = 0, inode = 0;
    int path_at = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx %4s %lx %*s %lu %n", &begin, &end, flags, &offset,
                    &inode, &path_at) < 5) {
        return std::nullopt;
    }
    mapping.begin = begin;
    mapping.end = end;
    mapping.is_writable = flags[1] == 'w';
    mapping.is_shared = flags[3] == 's';
    mapping.part = {line.substr(static_cast<std::size_t>(path_at)), offset, inode,
                    reinterpret_cast<const std::byte*>(begin),
                    reinterpret_cast<const std::byte*>(end)};
    return mapping;
}

/// Pages of a private mapping that were written to belong to no file any more.
bool are_unchanged(std::uintptr_t begin, std::size_t size) {
    const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    const std::uintptr_t first = begin / page, last = (begin + size - 1) / page;
    std::vector<std::uint64_t> entries(last - first + 1);
    const int pages = ::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    if (pages < 0) return false;
    const std::size_t wanted = entries.size() * sizeof entries[0];
    const ssize_t got =
        pread(pages, entries.data(), wanted, static_cast<off_t>(first * sizeof entries[0]));
    close(pages);
    if (got != static_cast<ssize_t>(wanted)) return false;
    constexpr std::uint64_t kPresent = std::uint64_t{1} << 63, kSwapped = std::uint64_t{1} << 62;
    constexpr std::uint64_t kOfFile = std::uint64_t{1} << 61;
    return std::ranges::none_of(entries, [&](std::uint64_t entry) {
        return (entry & kSwapped) != 0 || ((entry & kPresent) != 0 && (entry & kOfFile) == 0);
    });
}

}  // namespace

std::optional<FilePart> mapped_from(const std::byte* data, std::size_t size) {
    const auto at = reinterpret_cast<std::uintptr_t>(data);
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
        auto mapping = parse(line);
        if (!mapping || at < mapping->begin || at >= mapping->end) continue;
        FilePart& part = mapping->part;
        if (size > mapping->end - at || part.inode == 0 || !part.path.starts_with('/')) break;
        if (mapping->is_writable && (mapping->is_shared || !are_unchanged(at, size))) break;
        part.offset += at - mapping->begin;
        return std::move(part);
    }
    return std::nullopt;
}

std::string path_there(const Settings& settings, const std::string& path) {
    const std::pair<std::string, std::string>* best = nullptr;
    for (const auto& folder : settings.folders) {
        const bool is_below = path.starts_with(folder.first) &&
                              (folder.first.ends_with('/') || path.size() == folder.first.size() ||
                               path[folder.first.size()] == '/');
        if (is_below && (best == nullptr || folder.first.size() > best->first.size())) {
            best = &folder;
        }
    }
    return best == nullptr ? path : best->second + path.substr(best->first.size());
}

/// Nothing if there is another file at the path by now.
std::optional<FileOffers::Version> FileOffers::version_of(const FilePart& part) {
    struct stat facts {};
    if (stat(part.path.c_str(), &facts) != 0 || facts.st_ino != part.inode) return std::nullopt;
    return Version{part.path, part.inode, facts.st_mtim.tv_sec, facts.st_mtim.tv_nsec};
}

Result<std::optional<FileOffers::Found>> FileOffers::find(const std::byte* data, std::size_t size) {
    const std::optional<Found> none;
    const std::lock_guard guard(lock_);
    const auto holds = [&](const auto& range) {
        return range.first <= data && data < range.second;
    };
    const bool is_likely = std::ranges::any_of(mapped_, holds);
    if (size < (has_any_ ? kMore : kFirst) && !is_likely) return none;
    const auto part = mapped_from(data, size);
    const auto version = part ? version_of(*part) : std::nullopt;
    if (!version) return none;
    auto known = known_.find(*version);
    if (known == known_.end()) {
        HEDDLE_TRY_ASSIGN(const auto number, offer(*part, size));
        known = known_.emplace(*version, number).first;
    }
    if (!known->second) return none;
    has_any_ = true;
    mapped_.emplace(part->begin, part->end);
    return std::optional(Found{*known->second, part->offset});
}

Result<std::optional<std::uint32_t>> FileOffers::offer(const FilePart& part, std::size_t size) {
    const std::optional<std::uint32_t> none;
    const Settings& settings = cluster_.settings();
    auto samples = sample_file(part.path, std::random_device{}(), settings.verify);
    if (!samples || samples->inode != part.inode) return none;  // replaced meanwhile
    if (samples->size < part.offset + size) {
        return failure(Errc::io, part.path, ": byte ", samples->size,
                       " cannot be read: the file ends before it");
    }
    const std::uint32_t request = cluster_.next_number(), number = cluster_.next_number();
    ByteWriter out = question(Kind::file, request, 4096);
    out.put(number);
    out.text(path_there(settings, part.path));
    put_samples(out, *samples);
    const auto answer = cluster_.ask(rank_, request, seal(std::move(out)));
    if (answer) return std::optional(number);
    plugin::log(GGML_LOG_LEVEL_WARN,
                text("MPI", rank_, ": ", answer.error().message, "; weights are sent instead"));
    return none;
}

}  // namespace heddle::mpi
