#include "bench/cluster_load.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>

#include "bench/measure.hpp"

namespace heddle::tool::bench {
namespace {

constexpr std::size_t kPiece = std::size_t{4} << 20;

/// A file that is gone with this object, mapped.
class TemporaryFile {
public:
    static Result<std::unique_ptr<TemporaryFile>> make(std::size_t size) {
        auto file = std::make_unique<TemporaryFile>();
        file->path_ = std::filesystem::temp_directory_path() / "heddle-load-XXXXXX.gguf";
        file->size_ = size;
        file->fd_ = mkostemps(file->path_.data(), 5, O_CLOEXEC);
        if (file->fd_ < 0) {
            file->path_.clear();
            return failure(Errc::io, "no temporary file: ", std::strerror(errno));
        }
        std::vector<std::uint32_t> piece(kPiece / sizeof(std::uint32_t));
        for (std::size_t done = 0; done < size; done += kPiece) {
            for (std::size_t i = 0; i < piece.size(); ++i) {
                piece[i] = static_cast<std::uint32_t>((i + done) * 2654435761U);
            }
            if (done == 0) std::memcpy(piece.data(), "GGUF", 4);
            if (::write(file->fd_, piece.data(), kPiece) != static_cast<ssize_t>(kPiece)) {
                return failure(Errc::io, file->path_, ": ", std::strerror(errno));
            }
        }
        void* const mapped = mmap(nullptr, size, PROT_READ, MAP_SHARED, file->fd_, 0);
        if (mapped == MAP_FAILED) return failure(Errc::io, file->path_, " cannot be mapped");
        file->data_ = static_cast<const std::byte*>(mapped);
        file->forget();
        return file;
    }
    ~TemporaryFile() {
        if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
        if (fd_ >= 0) close(fd_);
        if (!path_.empty()) unlink(path_.c_str());
    }

    const std::byte* data() const { return data_; }

    /// Lets the system forget what it keeps of it in memory.
    void forget() const {
        fsync(fd_);
        posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED);
    }

    /// Seconds to read all of it past the page cache; 0 where that is not possible.
    double read_directly() const {
        const int direct = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
        if (direct < 0) return 0;
        void* piece = nullptr;
        if (posix_memalign(&piece, 4096, kPiece) != 0) piece = nullptr;
        const double begin = now();
        std::size_t done = 0;
        while (piece != nullptr && done < size_) {
            const ssize_t count = pread(direct, piece, kPiece, static_cast<off_t>(done));
            if (count <= 0) break;
            done += static_cast<std::size_t>(count);
        }
        const double seconds = now() - begin;
        std::free(piece);
        close(direct);
        return done == size_ ? seconds : 0;
    }

private:
    std::string path_;
    std::size_t size_ = 0;
    int fd_ = -1;
    const std::byte* data_ = nullptr;
};

/// A worker's tensor for a part of the file.
struct Target {
    ggml_context_ptr context;
    ggml_backend_buffer_ptr buffer;
    ggml_tensor* tensor = nullptr;
};

Result<Target> make_target(const Device& worker, std::size_t bytes) {
    Target target;
    target.context.reset(ggml_init({std::size_t{1} << 12, nullptr, true}));
    target.tensor =
        ggml_new_tensor_1d(target.context.get(), GGML_TYPE_I8, static_cast<std::int64_t>(bytes));
    target.buffer.reset(detail::call([&] {
        return ggml_backend_alloc_ctx_tensors_from_buft(target.context.get(),
                                                        ggml_backend_dev_buffer_type(worker.c()));
    }));
    if (target.buffer == nullptr) return detail::last_failure(Errc::out_of_memory, "no memory");
    ggml_backend_buffer_clear(target.buffer.get(), 0);
    return target;
}

}  // namespace

Result<LoadSpeed> measure_load(std::span<const Device> workers, std::size_t bytes) {
    const std::size_t share = bytes / workers.size() / kPiece * kPiece;
    LoadSpeed speed{share * workers.size(), 0, 0};
    HEDDLE_TRY_ASSIGN(const auto file, TemporaryFile::make(bytes));
    std::vector<Target> targets;
    for (const Device& worker : workers) {
        HEDDLE_TRY_ASSIGN(Target target, make_target(worker, share));
        targets.push_back(std::move(target));
    }
    const auto load = [&]() -> Result<double> {
        file->forget();
        const double begin = now();
        for (std::size_t i = 0; i < targets.size(); ++i) {
            ggml_backend_tensor_set(targets[i].tensor, file->data() + i * share, 0, share);
        }
        for (const Target& target : targets) {  // it is there now
            std::byte last{};
            ggml_backend_tensor_get(target.tensor, &last, share - 1, 1);
        }
        HEDDLE_TRY(detail::check_said(Errc::device));
        return now() - begin;
    };
    for (int i = 0; i < 3; ++i) {
        HEDDLE_TRY_ASSIGN(const double seconds, load());
        file->forget();
        const double direct = file->read_directly();
        speed.seconds = i == 0 ? seconds : std::min(speed.seconds, seconds);
        speed.direct_seconds = i == 0 ? direct : std::min(speed.direct_seconds, direct);
    }
    return speed;
}

}  // namespace heddle::tool::bench
