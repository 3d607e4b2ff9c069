#include "backends/mpi/worker/tensor_index.hpp"

#include <algorithm>

#include "backends/mpi/model_table.hpp"
#include "backends/mpi/worker/calls.hpp"

namespace heddle::mpi {

namespace fs = std::filesystem;

bool is_below(const fs::path& file, const fs::path& folder) {
    return std::ranges::mismatch(folder, file).in1 == folder.end();
}

// ---- looking through folders -------------------------------------------------------------------

void TensorIndex::look_around() {
    for (auto& file : std::exchange(served_, {})) {
        const OpenFile& opened = *file;
        take(opened, std::move(file));
    }
    if (std::exchange(has_looked_, true)) return;
    until_ = std::chrono::steady_clock::now() + limits_.time;
    std::size_t entries = 0;
    for (const fs::path& folder : folders_) look_into(folder, entries);
}

void TensorIndex::look_into(const fs::path& folder, std::size_t& entries) {
    std::error_code problem;
    fs::recursive_directory_iterator at(folder, fs::directory_options::skip_permission_denied,
                                        problem);
    for (; !problem && at != fs::recursive_directory_iterator(); at.increment(problem)) {
        if (++entries > limits_.entries || std::chrono::steady_clock::now() > until_) return;
        if (stops_) return;
        if (at.depth() >= limits_.depth) at.disable_recursion_pending();
        if (at->path().extension() != ".gguf") continue;
        std::error_code unreadable;
        const fs::path path = fs::canonical(at->path(), unreadable);
        if (unreadable || !is_below(path, folder)) continue;  // or a link out of it
        if (const auto file = OpenFile::open(path)) take(*file, nullptr);
    }
}

void TensorIndex::take(const OpenFile& file, std::shared_ptr<const OpenFile> kept) {
    const auto is_it = [&](const Known& known) { return known.version == file.version(); };
    if (files_.size() >= limits_.files || std::ranges::any_of(files_, is_it)) return;
    const auto table = model_table(file);
    if (!table) return;
    files_.push_back({file.path(), file.version(), std::move(kept)});
    for (const ModelTable::Part& part : table->tensors) {
        if (part.size < TensorOffer::kLeast || tensors_.size() >= limits_.tensors) continue;
        tensors_.emplace(part.size, Entry{files_.size() - 1, part.offset, std::nullopt});
    }
}

// ---- answers -----------------------------------------------------------------------------------

std::shared_ptr<const OpenFile> TensorIndex::open(const Known& known) const {
    if (known.open != nullptr) {
        return known.open->version_now() == known.version ? known.open : nullptr;
    }
    auto file = OpenFile::open(known.path);
    if (!file || file->version() != known.version) return nullptr;
    return std::make_shared<const OpenFile>(*std::move(file));
}

std::optional<TensorMatch> TensorIndex::compare(Entry& entry, const TensorOffer& offer) {
    Known& known = files_[entry.file];
    const auto file = open(known);
    std::array<std::byte, TensorOffer::kBegin> begin;
    if (file == nullptr || !file->read(entry.place, begin)) return std::nullopt;
    if (sha256(begin) != offer.begin) return std::nullopt;
    if (!entry.digest) {
        auto content = digest(*file, entry.place, offer.size);
        if (!content || file->version_now() != known.version) return std::nullopt;
        entry.digest = *content;
    }
    known.open = file;
    return TensorMatch{kFirst + static_cast<std::uint32_t>(entry.file), entry.place, *entry.digest};
}

Result<Digest> TensorIndex::digest(const OpenFile& file, std::uint64_t place,
                                   std::uint64_t size) const {
    const auto read = [&](std::uint64_t at, std::size_t part, Bytes& room) -> Result<ByteView> {
        if (stops_) return leaves();
        room.resize(part);
        HEDDLE_TRY(file.read(place + at, room));
        return ByteView(room);
    };
    return digest_of(size, read);
}

TensorMatches TensorIndex::find(const TensorOffer& offer) {
    look_around();
    TensorMatches found;
    found.known = static_cast<std::uint32_t>(tensors_.size());
    const auto [begin, end] = tensors_.equal_range(offer.size);
    for (auto entry = begin; entry != end; ++entry) {
        const auto match = compare(entry->second, offer);
        if (match) found.matches.push_back(*match);
        if (found.matches.size() == TensorMatches::kMost) break;
    }
    return found;
}

std::shared_ptr<const OpenFile> TensorIndex::file(std::uint32_t number) const {
    const std::size_t index = number - kFirst;
    return number >= kFirst && index < files_.size() ? files_[index].open : nullptr;
}

}  // namespace heddle::mpi
