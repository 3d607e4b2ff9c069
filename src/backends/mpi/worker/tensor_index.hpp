#pragma once

#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "backends/mpi/open_file.hpp"
#include "backends/mpi/tensor_offers.hpp"

namespace heddle::mpi {

/// Whether `file` is in `folder` or below it, if neither has links in it.
bool is_below(const std::filesystem::path& file, const std::filesystem::path& folder);

/// Tensors in GGUF files of this machine, by their size. The folders are looked through when rank 0
/// asks for the first time, as far as `Limits` allow. Files of which a tensor was found stay open.
class TensorIndex {
public:
    struct Limits {
        std::size_t entries = 1 << 16, files = 512, tensors = 1 << 18;
        int depth = 8;
        std::chrono::milliseconds time{5000};
    };
    /// Files from here on are those that the worker found itself; others have a number of rank 0.
    static constexpr std::uint32_t kFirst = std::uint32_t{1} << 31;

    explicit TensorIndex(std::vector<std::filesystem::path> folders)
        : TensorIndex(std::move(folders), Limits()) {}
    TensorIndex(std::vector<std::filesystem::path> folders, const Limits& limits)
        : folders_(std::move(folders)), limits_(limits) {}

    /// Its tensors are found from now on.
    void add(std::shared_ptr<const OpenFile> file) { served_.push_back(std::move(file)); }

    /// Tensors of that size that begin so. All their bytes have been hashed here.
    TensorMatches find(const TensorOffer& offer);

    /// Nothing is found any more, nor hashed to its end. For any thread.
    void stop() { stops_ = true; }
    const std::atomic<bool>& stops() const { return stops_; }

    /// One of which a tensor was found; null if there is none of that number.
    std::shared_ptr<const OpenFile> file(std::uint32_t number) const;

private:
    struct Known {
        std::string path;
        FileVersion version;
        std::shared_ptr<const OpenFile> open;  ///< null until a tensor of it was found
    };
    struct Entry {
        std::size_t file = 0;  ///< of `files_`
        std::uint64_t place = 0;
        std::optional<Digest> digest;
    };

    void look_around();
    void look_into(const std::filesystem::path& folder, std::size_t& entries);
    void take(const OpenFile& file, std::shared_ptr<const OpenFile> kept);
    /// Null if it is gone, or another one by now.
    std::shared_ptr<const OpenFile> open(const Known& known) const;
    std::optional<TensorMatch> compare(Entry& entry, const TensorOffer& offer);
    Result<Digest> digest(const OpenFile& file, std::uint64_t place, std::uint64_t size) const;

    const std::vector<std::filesystem::path> folders_;
    const Limits limits_;
    std::atomic<bool> stops_{false};
    bool has_looked_ = false;
    std::vector<std::shared_ptr<const OpenFile>> served_;  ///< and not looked into yet
    std::chrono::steady_clock::time_point until_{};
    std::vector<Known> files_;
    std::multimap<std::uint64_t, Entry> tensors_;
};

}  // namespace heddle::mpi
