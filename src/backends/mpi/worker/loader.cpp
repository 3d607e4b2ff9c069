#include "backends/mpi/worker/loader.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>

#include "backends/mpi/worker/calls.hpp"
#include "gguf.h"
#include "heddle/backend/guard.hpp"

namespace heddle::mpi {
namespace {

constexpr std::size_t kThreads = 2;
constexpr std::size_t kPart = std::size_t{4} << 20;

/// One piece, a few MiB at a time.
Result<> perform_one(Load& load, std::size_t offset, std::uint64_t place,
                     const std::atomic<bool>& stops) {
    Bytes part;
    const std::size_t size = load.pieces.size, step = load.in_one_piece ? size : kPart;
    Tensor& tensor = load.target.tensor;
    for (std::size_t done = 0; done < size; done += part.size()) {
        if (stops) return leaves();
        part.resize(std::min(step, size - done));
        HEDDLE_TRY(load.file->read(place + done, part));
        HEDDLE_TRY(reported([&] {
            if (load.in_one_piece) ggml_backend_buffer_init_tensor(tensor.buffer, &tensor);
            ggml_backend_tensor_set(&tensor, part.data(), offset + done, part.size());
        }));
    }
    return ok();
}

/// Several pieces, read with what lies between them.
Result<> perform_some(Load& load, std::size_t first, std::size_t count) {
    const Pieces& all = load.pieces;
    Bytes part((count - 1) * all.host_stride + all.size);
    HEDDLE_TRY(load.file->read(load.place + first * all.host_stride, part));
    return reported([&] {
        ggml_backend_tensor_set_2d(&load.target.tensor, part.data(),
                                   all.offset + first * all.tensor_stride, all.size, count,
                                   all.tensor_stride, all.host_stride);
    });
}

Result<> perform(Load& load, const std::atomic<bool>& stops) {
    const Pieces& all = load.pieces;
    // Pieces that are far apart are read by themselves, large ones in parts.
    const std::size_t together = kPart / std::max(all.host_stride, all.size);
    for (std::size_t first = 0; first < all.count;) {
        if (stops) return leaves();
        const std::size_t count = std::min(std::max<std::size_t>(together, 1), all.count - first);
        HEDDLE_TRY(count > 1 ? perform_some(load, first, count)
                             : perform_one(load, all.offset + first * all.tensor_stride,
                                           load.place + first * all.host_stride, stops));
        first += count;
    }
    // It was compared when it was opened, and may be anything by now.
    if (load.file->has_same_content()) return ok();
    return failure(Errc::io, load.file->path(), " was written to after it was compared");
}

}  // namespace

bool Load::is_in_file() const {
    std::uint64_t end = 0;
    return !__builtin_mul_overflow(pieces.count - 1, pieces.host_stride, &end) &&
           !__builtin_add_overflow(end, pieces.size, &end) &&
           !__builtin_add_overflow(end, place, &end) && end <= file->size();
}

bool Load::overlaps(const Load& other) const {
    const auto begin = [](const Load& load) {
        return static_cast<const std::byte*>(load.target.tensor.data) + load.pieces.offset;
    };
    const auto end = [&](const Load& load) { return begin(load) + extent_of(load.pieces); };
    return target.buffer == other.target.buffer && begin(*this) < end(other) &&
           begin(other) < end(*this);
}

Loader::~Loader() {
    stop();
    for (std::thread& thread : threads_) thread.join();
}

void Loader::stop() {
    const std::lock_guard guard(lock_);
    stops_ = true;
    give_up_queue();
    changed_.notify_all();
}

void Loader::give_up_queue() {
    for (const Load& load : loads_) {
        load.target.buffer->end_load(leaves());
    }
    loads_.clear();
}

void Loader::submit(Load load) {
    const std::lock_guard guard(lock_);
    if (threads_.size() < kThreads) threads_.emplace_back([this] { work(); });
    loads_.push_back(std::move(load));
    loads_.back().target.buffer->begin_load();  // behind what may throw: it has to end
    if (stops_) give_up_queue();
    changed_.notify_one();
}

bool Loader::is_ready() const {
    const auto is_in_the_way = [&](const Load* load) { return load->overlaps(loads_.front()); };
    return !loads_.empty() && std::ranges::none_of(running_, is_in_the_way);
}

void Loader::work() {
    heddle_set_thread_error_mode(HEDDLE_ERROR_MODE_RETURN);
    std::unique_lock guard(lock_);
    while (true) {
        changed_.wait(guard, [&] { return stops_ || is_ready(); });
        if (stops_) return;
        Load load = std::move(loads_.front());
        loads_.pop_front();
        running_.push_back(&load);
        guard.unlock();
        load.target.buffer->end_load(plugin::attempt([&] { return perform(load, stops_); }));
        guard.lock();
        std::erase(running_, &load);
        changed_.notify_all();
        guard.unlock();
        load = {};
        guard.lock();
    }
}

// ---- files -------------------------------------------------------------------------------------

namespace {

std::vector<std::filesystem::path> without_links(const std::vector<std::string>& folders) {
    std::vector<std::filesystem::path> all;
    for (const std::string& folder : folders) {
        std::error_code ignored;
        all.push_back(std::filesystem::weakly_canonical(folder, ignored));
    }
    return all;
}

}  // namespace

ServedFiles::ServedFiles(const std::vector<std::string>& folders,
                         std::shared_ptr<DigestStore> digests)
    : folders_(without_links(folders)), digests_(std::move(digests)) {}

/// Links are followed first: what they lead to has to be there, too.
Result<OpenFile> ServedFiles::open_below(const std::string& path) const {
    std::vector<std::filesystem::path> places{path};
    for (const auto& folder : folders_) {
        places.push_back(folder / std::filesystem::path(path).filename());
    }
    for (const auto& place : places) {
        std::error_code problem;
        const auto file = std::filesystem::canonical(place, problem);
        const auto holds = [&](const auto& folder) { return is_below(file, folder); };
        if (!problem && std::ranges::any_of(folders_, holds)) return OpenFile::open(file);
    }
    return failure(Errc::not_found, path, " is in none of the folders of --files");
}

Result<OpenFile> ServedFiles::open(const std::string& path) const {
    if (!folders_.empty()) return open_below(path);
    if (!path.ends_with(".gguf") || !path.starts_with('/')) {
        return failure(Errc::not_found, path, " is no path of a .gguf file");
    }
    HEDDLE_TRY_ASSIGN(OpenFile file, OpenFile::open(path));
    if (file.owner() != geteuid() && file.owner() != 0) {
        return failure(Errc::not_found, path, " belongs to another user");
    }
    return file;
}

Result<std::vector<std::uint32_t>> ServedFiles::add(std::uint32_t number, const std::string& path,
                                                    const FileSamples& samples) {
    if (files_.contains(number) || number >= TensorIndex::kFirst) return broken("a file");
    HEDDLE_TRY_ASSIGN(OpenFile file, open(path));
    std::array<char, 4> magic{};
    if (!file.read(0, std::as_writable_bytes(std::span(magic))) ||
        std::string_view(magic.data(), magic.size()) != GGUF_MAGIC) {
        return failure(Errc::not_found, path, " is no GGUF file");
    }
    HEDDLE_TRY_ASSIGN(auto differences, compare(file, samples, path, *digests_, &index_.stops()));
    const auto kept = std::make_shared<const OpenFile>(std::move(file));
    files_[number] = kept;
    index_.add(kept);
    return differences;
}

Result<std::shared_ptr<const OpenFile>> ServedFiles::find(std::uint32_t number) const {
    const auto found = files_.find(number);
    if (found != files_.end()) return found->second;
    if (auto own = index_.file(number)) return own;
    return failure(Errc::corrupt, "there is no file ", number);
}

}  // namespace heddle::mpi
