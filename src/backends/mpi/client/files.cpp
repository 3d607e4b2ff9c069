#include "backends/mpi/client/files.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <random>
#include <string_view>
#include <vector>

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

bool FileOffers::has_any() const {
    const std::lock_guard guard(lock_);
    return has_any_;
}

Result<std::optional<FileOffers::Origin>> FileOffers::find(ByteView bytes, bool is_weight) {
    const std::optional<Origin> none;
    const std::lock_guard guard(lock_);
    const auto holds = [&](const auto& range) {
        return range.first <= bytes.data() && bytes.data() < range.second;
    };
    const bool is_likely = is_weight || std::ranges::any_of(mapped_, holds);
    if (bytes.size() < (has_any_ ? kMore : kFirst) && !is_likely) return none;
    const auto part = mapped_from(bytes.data(), bytes.size());
    if (!part) return none;
    auto file = OpenFile::open(part->path);
    if (!file) return none;  // a device, or one that may not be opened any more
    if (file->inode() != part->inode) return none;  // another file by now
    const Known& same = known(*std::move(file));
    mapped_.emplace(part->begin, part->end);
    HEDDLE_TRY_ASSIGN(Origin found, origin(same, part->offset, bytes.size()));
    return std::optional(std::move(found));
}

Result<FileOffers::Origin> FileOffers::find_in(const std::string& path, std::uint64_t offset,
                                               std::uint64_t size) {
    const std::lock_guard guard(lock_);
    HEDDLE_TRY_ASSIGN(OpenFile file, OpenFile::open(path));
    return origin(known(std::move(file)), offset, size);
}

const FileOffers::Known& FileOffers::known(OpenFile file) {
    const Name name{file.path(), file.version()};
    const auto found = known_.find(name);
    if (found != known_.end()) return found->second;
    Known known;
    known.file = std::make_shared<const OpenFile>(std::move(file));
    offer(known);
    has_any_ = has_any_ || known.there.has_value();
    return known_.emplace(name, std::move(known)).first->second;
}

Result<FileOffers::Origin> FileOffers::origin(const Known& known, std::uint64_t offset,
                                              std::uint64_t size) {
    const std::uint64_t all = known.file->size();
    if (offset > all || size > all - offset) {
        return failure(Errc::io, known.file->path(), ": byte ", all,
                       " cannot be read: the file ends before it");
    }
    const auto differs = [&](std::uint32_t block) {
        return block * known.block < offset + size && offset < (block + 1) * known.block;
    };
    Origin origin{known.file, offset, known.there};
    if (size > 0 && std::ranges::any_of(known.differences, differs)) origin.there.reset();
    return origin;
}

void FileOffers::offer(Known& known) {
    const Settings& settings = cluster_.settings();
    const OpenFile& file = *known.file;
    const auto samples =
        sample_file(file, std::random_device{}(), settings.verify, *settings.digests);
    if (!samples) return;  // empty, or it cannot be read
    const std::uint32_t request = cluster_.next_number(), number = cluster_.next_number();
    const std::string path = path_there(settings, file.path());
    ByteWriter out = question(Kind::file, request, 4096);
    out.put(number);
    out.text(path);
    put_samples(out, *samples);
    const auto answer = cluster_.ask(rank_, request, seal(std::move(out)));
    ByteReader in(answer ? ByteView(*answer) : ByteView());
    const std::size_t blocks = samples->is_full ? samples->blocks.size() : 0;
    auto differences = answer ? get_differences(in, blocks) : answer.error();
    if (!differences) {
        plugin::log(GGML_LOG_LEVEL_WARN, text("MPI", rank_, ": ", differences.error().message,
                                              "; weights are sent instead"));
        return;
    }
    known.there = number;
    known.block = samples->block;
    known.differences = *std::move(differences);
    if (known.differences.empty()) return;
    const std::uint64_t begin = known.differences.front() * known.block;
    plugin::log(GGML_LOG_LEVEL_WARN,
                text("MPI", rank_, ": ", path, " differs from the file here in ",
                     known.differences.size(), " of ", blocks, " blocks, the first between bytes ",
                     begin, " and ", std::min(begin + known.block, file.size()),
                     "; weights that lie in them are sent instead"));
}

}  // namespace heddle::mpi
