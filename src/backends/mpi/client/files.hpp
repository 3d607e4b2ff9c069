#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "backends/mpi/client/cluster.hpp"

/// Weights that workers read from their own copy of a file. Programs write tensors from mapped
/// files: the address tells which bytes of which file they are.
namespace heddle::mpi {

/// Bytes of a file in memory of this process.
struct FilePart {
    std::string path;
    std::uint64_t offset = 0, inode = 0;
    const std::byte *begin = nullptr, *end = nullptr;  ///< of the mapping they are in
};

/// The file that these bytes are mapped from; nothing if they are from none, from several, or were
/// changed in memory.
std::optional<FilePart> mapped_from(const std::byte* data, std::size_t size);

/// Where a file of this machine is there: in the folder that the longest name of a folder here
/// stands for.
std::string path_there(const Settings& settings, const std::string& path);

/// The files that a worker was asked for.
class FileOffers {
public:
    FileOffers(Cluster& cluster, int rank) : cluster_(cluster), rank_(rank) {}

    /// Where bytes come from: a file here, and the worker's number of it if it has them itself.
    struct Origin {
        std::shared_ptr<const OpenFile> file;
        std::uint64_t offset = 0;
        std::optional<std::uint32_t> there;
    };
    /// Of bytes that are mapped. Few of them are looked up only if they are of a weight, or near
    /// others. Fails if their file has become too short: they are nowhere then, and a look at them
    /// would end the program.
    Result<std::optional<Origin>> find(ByteView bytes, bool is_weight);

    /// Of bytes of a file that may be read here.
    Result<Origin> find_in(const std::string& path, std::uint64_t offset, std::uint64_t size);

    /// Whether the worker has any of the files it was asked for.
    bool has_any() const;

private:
    /// A file as it was when the worker was asked; one that was written to since is another.
    using Name = std::pair<std::string, FileVersion>;
    struct Known {
        std::shared_ptr<const OpenFile> file;
        std::optional<std::uint32_t> there;
        std::uint64_t block = 0;
        std::vector<std::uint32_t> differences;  ///< blocks that are others there
    };
    /// Asks the worker for it if that was not done before.
    const Known& known(OpenFile file);
    static Result<Origin> origin(const Known& known, std::uint64_t offset, std::uint64_t size);
    void offer(Known& known);

    Cluster& cluster_;
    const int rank_;
    mutable std::mutex lock_;
    std::map<Name, Known> known_;
    bool has_any_ = false;
    /// Where known files were mapped, and may be still. Looking that up takes longer than sending
    /// few bytes, such as the inputs of a token.
    std::set<std::pair<const std::byte*, const std::byte*>> mapped_;
};

}  // namespace heddle::mpi
