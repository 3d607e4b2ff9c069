#include "backends/mpi/worker/loader.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>

#include "backends/mpi/worker/calls.hpp"
#include "heddle/backend/guard.hpp"

namespace heddle::mpi {
namespace {

constexpr std::size_t kThreads = 2;
constexpr std::size_t kPiece = std::size_t{4} << 20;

Result<> perform(Load& load) {
    Bytes piece;
    const std::size_t step = load.in_one_piece ? load.size : kPiece;
    Tensor& tensor = load.target.tensor;
    for (std::size_t done = 0; done < load.size; done += piece.size()) {
        piece.resize(std::min(step, load.size - done));
        HEDDLE_TRY(load.file->read(load.place + done, piece));
        HEDDLE_TRY(reported([&] {
            if (load.in_one_piece) ggml_backend_buffer_init_tensor(tensor.buffer, &tensor);
            ggml_backend_tensor_set(&tensor, piece.data(), load.offset + done, piece.size());
        }));
    }
    // It was compared when it was opened, and may be anything by now.
    if (load.file->has_same_content()) return ok();
    return failure(Errc::io, load.file->path(), " was written to after it was compared");
}

}  // namespace

Loader::~Loader() {
    {
        const std::lock_guard guard(lock_);
        stops_ = true;
        for (const Load& load : loads_) {
            load.target.buffer->end_load(failure(Errc::aborted, "the worker leaves"));
        }
        loads_.clear();
        changed_.notify_all();
    }
    for (std::thread& thread : threads_) thread.join();
}

void Loader::submit(Load load) {
    load.target.buffer->begin_load();
    const std::lock_guard guard(lock_);
    if (threads_.size() < kThreads) threads_.emplace_back([this] { work(); });
    loads_.push_back(std::move(load));
    changed_.notify_one();
}

void Loader::work() {
    heddle_set_thread_error_mode(HEDDLE_ERROR_MODE_RETURN);
    std::unique_lock guard(lock_);
    while (true) {
        changed_.wait(guard, [&] { return stops_ || !loads_.empty(); });
        if (stops_) return;
        Load load = std::move(loads_.front());
        loads_.pop_front();
        guard.unlock();
        load.target.buffer->end_load(plugin::attempt([&] { return perform(load); }));
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
    const auto is_below = [](const std::filesystem::path& file, const auto& folder) {
        return std::ranges::mismatch(folder, file).in1 == folder.end();
    };
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
        std::string_view(magic.data(), magic.size()) != "GGUF") {
        return failure(Errc::not_found, path, " is no GGUF file");
    }
    HEDDLE_TRY_ASSIGN(auto differences, compare(file, samples, path, *digests_));
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
