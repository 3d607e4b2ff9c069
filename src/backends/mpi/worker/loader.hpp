#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "backends/mpi/file_comparison.hpp"
#include "backends/mpi/pieces.hpp"
#include "backends/mpi/worker/storage.hpp"
#include "backends/mpi/worker/tensor_index.hpp"

namespace heddle::mpi {

/// Part of a file that goes into a tensor.
struct Load {
    std::shared_ptr<const OpenFile> file;
    std::uint64_t place = 0;  ///< in the file
    Placed target;
    Pieces pieces{};  ///< of the tensor; `host_stride` is how far they are apart in the file
    bool in_one_piece = false;

    /// Whether the file has all of the pieces.
    bool is_in_file() const;
    /// Whether both may write the same bytes.
    bool overlaps(const Load& other) const;
};

/// Threads that read weights from files, while rank 0 and streams go on. What is read twice into
/// the same bytes is read in the order it was asked for.
class Loader {
public:
    ~Loader();
    /// The target's buffer knows of it from now on.
    void submit(Load load);
    /// Gives up what is in the queue, what comes later, and the rest of what is being read: what
    /// waits for it need not wait any longer.
    void stop();

private:
    void work();
    /// Whether the first of the queue can be begun.
    bool is_ready() const;
    void give_up_queue();

    std::mutex lock_;
    std::condition_variable changed_;
    std::deque<Load> loads_;
    std::vector<const Load*> running_;
    std::atomic<bool> stops_{false};  ///< set under the lock
    std::vector<std::thread> threads_;
};

/// Files that rank 0 has named and that are the same here, and what else is in the folders.
class ServedFiles {
public:
    /// Files below one of `folders`; none: of this user or root, with a name that ends in .gguf.
    ServedFiles(const std::vector<std::string>& folders, std::shared_ptr<DigestStore> digests);

    /// The file at that path, or of that name right in one of the folders; gives the blocks of it
    /// that differ. Fails unless it may be read, is a GGUF file, and has these samples.
    Result<std::vector<std::uint32_t>> add(std::uint32_t number, const std::string& path,
                                           const FileSamples& samples);
    Result<std::shared_ptr<const OpenFile>> find(std::uint32_t number) const;

    /// What is being hashed fails, and so does what comes later. For any thread.
    void stop() { index_.stop(); }

    /// Tensors in files of this machine that may be what rank 0 has in memory.
    TensorMatches find(const TensorOffer& offer) { return index_.find(offer); }

private:
    Result<OpenFile> open(const std::string& path) const;
    Result<OpenFile> open_below(const std::string& path) const;

    const std::vector<std::filesystem::path> folders_;
    const std::shared_ptr<DigestStore> digests_;
    std::map<std::uint32_t, std::shared_ptr<const OpenFile>> files_;
    TensorIndex index_{folders_};
};

}  // namespace heddle::mpi
