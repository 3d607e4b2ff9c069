#include "backends/mpi/digest_store.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>

#include "backends/mpi/file_samples.hpp"
#include "core/whole_file.hpp"

namespace heddle::mpi {
namespace {

constexpr std::size_t kMostFiles = 64;  ///< that are known at a time
constexpr std::size_t kHexOfDigest = 2 * std::tuple_size_v<Digest>;
constexpr std::string_view kFirstLine = "heddle digests 1\n";

/// Steps of the clock that file systems keep times by are shorter.
constexpr std::int64_t kStepOfTimes = 50'000'000;

std::int64_t wall_time() {
    const auto time = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
}

/// A number and the tab behind it; false if that is not there.
template <class Number>
bool take_number(std::string_view& line, Number& number) {
    const auto [end, problem] = std::from_chars(line.data(), line.data() + line.size(), number);
    if (problem != std::errc() || end == line.data() + line.size() || *end != '\t') return false;
    line.remove_prefix(static_cast<std::size_t>(end - line.data()) + 1);
    return true;
}

std::optional<Digest> parse_digest(std::string_view hex) {
    Digest digest;
    for (std::size_t i = 0; i < digest.size(); ++i) {
        std::uint8_t byte = 0;
        const char* const two = hex.data() + 2 * i;
        if (std::from_chars(two, two + 2, byte, 16).ptr != two + 2) return std::nullopt;
        digest[i] = std::byte{byte};
    }
    return digest;
}

}  // namespace

// ---- lines -------------------------------------------------------------------------------------

std::string line_of(const FileDigests& file) {
    const FileVersion& version = file.version;
    std::string line = text(version.device, '\t', version.inode, '\t', version.size, '\t',
                            version.written, '\t', version.changed, '\t', file.block, '\t');
    line.reserve(line.size() + file.digests.size() * kHexOfDigest + 1);
    for (const Digest& digest : file.digests) {
        for (const std::byte byte : digest) {
            line += "0123456789abcdef"[static_cast<unsigned>(byte) >> 4];
            line += "0123456789abcdef"[static_cast<unsigned>(byte) & 15];
        }
    }
    return line + '\n';
}

std::optional<FileDigests> parse_digests(std::string_view line) {
    FileDigests file;
    FileVersion& version = file.version;
    const bool is_read = take_number(line, version.device) && take_number(line, version.inode) &&
                         take_number(line, version.size) && take_number(line, version.written) &&
                         take_number(line, version.changed) && take_number(line, file.block);
    if (!is_read || file.block == 0 || line.size() % kHexOfDigest != 0) return std::nullopt;
    if (line.size() / kHexOfDigest != block_count(version.size, file.block)) return std::nullopt;
    for (; !line.empty(); line.remove_prefix(kHexOfDigest)) {
        const auto digest = parse_digest(line);
        if (!digest) return std::nullopt;
        file.digests.push_back(*digest);
    }
    return file;
}

// ---- the store ---------------------------------------------------------------------------------

Result<std::vector<Digest>> DigestStore::of(const OpenFile& file, std::uint64_t block,
                                            const std::atomic<bool>* stops) {
    // As it is now, not as it was when it was opened: that may have been long ago.
    const FileVersion before = file.version_now();
    const bool is_settled = wall_time() - std::max(before.written, before.changed) > kStepOfTimes;
    const std::lock_guard guard(lock_);  // two that ask for the same file wait for one
    if (auto known = find(before, block)) return *std::move(known);
    FileDigests found{before, block, {}};
    for (std::uint64_t at = 0; at < before.size; at += block) {
        if (stops != nullptr && *stops) return failure(Errc::aborted, "it was stopped");
        HEDDLE_TRY_ASSIGN(const Digest digest, file.digest(at, std::min(block, before.size - at)));
        found.digests.push_back(digest);
        ++hashed_;
    }
    if (is_settled && file.version_now() == before) keep(found);
    return std::move(found.digests);
}

std::optional<std::vector<Digest>> DigestStore::find(const FileVersion& version,
                                                     std::uint64_t block) {
    const auto is_it = [&](const FileDigests& each) {
        return each.version == version && each.block == block;
    };
    const auto known = std::ranges::find_if(known_, is_it);
    if (known != known_.end()) return known->digests;
    std::vector<FileDigests> kept = read_kept();
    const auto found = std::ranges::find_if(kept, is_it);
    if (found == kept.end()) return std::nullopt;
    add(known_, *found);
    return std::move(found->digests);
}

void DigestStore::keep(FileDigests digests) {
    std::vector<FileDigests> kept = read_kept();  // others may have added to them
    add(kept, digests);
    add(known_, std::move(digests));
    write_kept(kept);
}

/// In the place of what was known of the same file, and of the oldest.
void DigestStore::add(std::vector<FileDigests>& all, FileDigests digests) {
    std::erase_if(all, [&](const FileDigests& each) {
        return each.version.device == digests.version.device &&
               each.version.inode == digests.version.inode && each.block == digests.block;
    });
    if (all.size() >= kMostFiles) all.erase(all.begin());
    all.push_back(std::move(digests));
}

std::vector<FileDigests> DigestStore::read_kept() const {
    if (path_.empty()) return {};
    const auto file = OpenFile::open(path_);
    if (!file || file->size() > kLongest) return {};
    std::string content(static_cast<std::size_t>(file->size()), '\0');
    if (!file->read(0, std::as_writable_bytes(std::span(content)))) return {};
    std::string_view rest = content;
    if (!rest.starts_with(kFirstLine)) return {};
    rest.remove_prefix(kFirstLine.size());
    std::vector<FileDigests> all;
    while (!rest.empty() && all.size() < kMostFiles) {
        const std::size_t end = rest.find('\n');
        if (end == std::string_view::npos) break;  // the last line was not written to its end
        if (auto digests = parse_digests(rest.substr(0, end))) all.push_back(*std::move(digests));
        rest.remove_prefix(end + 1);
    }
    return all;
}

/// Nothing that goes wrong here matters: the next run hashes again.
void DigestStore::write_kept(std::span<const FileDigests> all) const {
    namespace fs = std::filesystem;
    if (path_.empty()) return;
    std::error_code problem;
    const fs::path folder = fs::path(path_).parent_path();
    fs::create_directories(folder, problem);
    const fs::file_status there = fs::status(path_, problem);
    // Not into pipes and devices; and whole or not at all, which takes a new file in the folder.
    if (fs::exists(there) && !fs::is_regular_file(there)) return;
    if (access(folder.c_str(), W_OK) != 0) return;
    std::string content(kFirstLine);
    std::vector<std::string> lines;
    std::size_t size = content.size();
    for (std::size_t i = all.size(); i > 0; --i) {  // the newest first: old ones may find no room
        lines.push_back(line_of(all[i - 1]));
        size += lines.back().size();
        if (size <= kLongest) continue;
        lines.pop_back();
        break;
    }
    for (auto line = lines.rbegin(); line != lines.rend(); ++line) content += *line;
    (void)write_whole_file(path_, content);
}

}  // namespace heddle::mpi
