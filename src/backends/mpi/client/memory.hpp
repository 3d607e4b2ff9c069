#pragma once

#include <functional>
#include <memory>
#include <string>

#include "backends/mpi/client/cluster.hpp"
#include "backends/mpi/client/file_ranges.hpp"
#include "backends/mpi/client/files.hpp"
#include "backends/mpi/codec.hpp"
#include "backends/mpi/pieces.hpp"
#include "heddle/backend.hpp"

/// Memory of workers, as programs see it.
namespace heddle::mpi {

class RemoteDevice;

/// Addresses that belong to nothing else and cannot be read: a stray access ends there instead of
/// in other memory.
class AddressRange {
public:
    /// `alignment` is a power of two: offsets are aligned here as they are there.
    static Result<AddressRange> reserve(std::size_t size, std::size_t alignment);
    AddressRange(AddressRange&& other) noexcept
        : mapped_(std::exchange(other.mapped_, nullptr)),
          mapped_size_(other.mapped_size_),
          base_(other.base_),
          size_(other.size_) {}
    AddressRange& operator=(AddressRange&&) = delete;
    ~AddressRange();

    std::byte* base() const { return base_; }
    std::size_t size() const { return size_; }

private:
    AddressRange(void* mapped, std::size_t mapped_size, std::byte* base, std::size_t size)
        : mapped_(mapped), mapped_size_(mapped_size), base_(base), size_(size) {}

    void* mapped_;
    std::size_t mapped_size_;
    std::byte* base_;
    std::size_t size_;
};

class RemoteBuffer {
public:
    RemoteBuffer(RemoteDevice& device, std::uint32_t number, const BufferTypeFacts& type,
                 AddressRange addresses)
        : device_(device), number_(number), type_(type), addresses_(std::move(addresses)) {}
    ~RemoteBuffer();
    RemoteBuffer(const RemoteBuffer&) = delete;
    RemoteBuffer& operator=(const RemoteBuffer&) = delete;

    void* base() const { return addresses_.base(); }
    RemoteDevice& device() const { return device_; }
    std::uint32_t number() const { return number_; }

    /// Fails unless `size` bytes from `offset` on, of a tensor here, are inside the buffer.
    Result<Record> locate(const Tensor& tensor, std::size_t offset, std::size_t size) const;

    Result<> write_tensor(Tensor& tensor, std::size_t offset, std::span<const std::byte> bytes);
    Result<> read_tensor(const Tensor& tensor, std::size_t offset, std::span<std::byte> bytes);
    Result<> fill_tensor(Tensor& tensor, std::size_t offset, std::size_t size, std::uint8_t value);
    Result<> write_pieces(Tensor& tensor, const std::byte* data, plugin::Pieces pieces);
    Result<> read_pieces(const Tensor& tensor, std::byte* data, plugin::Pieces pieces);
    Result<> clear(std::uint8_t value);
    Result<> reset();
    bool copy(const Tensor& from, Tensor& to);

    /// All of a tensor from a file, which the worker reads itself if it has the same one.
    Result<> load_file(Tensor& tensor, const std::string& path, std::uint64_t offset);

    /// A stream writes bytes of a tensor, which may have come from a file.
    void note_write(const Tensor& tensor, std::size_t offset, std::size_t size);
    /// A graph has results here.
    void note_graph() { from_files_.close(); }

private:
    Result<> send(const Record& place, std::size_t offset, ByteView bytes);
    Result<> send_whole(const Record& place, ByteView bytes);
    Result<> send_pieces(const Record& place, const std::byte* data, const plugin::Pieces& pieces);
    Result<> send_file(const Record& place, const FileOffers::Origin& origin);
    /// Part of a file of the worker's.
    struct Source {
        std::uint32_t file = 0;
        std::uint64_t place = 0;
    };
    Result<> load(const Record& place, const plugin::Pieces& pieces, const Source& source);
    static bool holds_weights(const Tensor& tensor);
    /// Whether it is worth a question if the worker has such a tensor in a file.
    bool is_new_weight(const Tensor& tensor, std::size_t begin, std::size_t size);
    Result<> read_from_worker(const Record& place, std::byte* data, const plugin::Pieces& pieces);
    Result<bool> read_from_files(const Record& place, std::byte* data,
                                 const plugin::Pieces& pieces) const;

    RemoteDevice& device_;
    const std::uint32_t number_;
    const BufferTypeFacts& type_;
    const AddressRange addresses_;
    FileRanges from_files_;
    std::mutex lock_;
    std::set<std::size_t> written_;  ///< where large tensors began that were written whole
};

/// A buffer type of a worker's device.
class RemoteMemory : public plugin::BufferType<RemoteMemory> {
public:
    RemoteMemory(ggml_backend_dev_t handle, RemoteDevice& device, std::size_t index);

    const char* name() { return name_.c_str(); }
    std::size_t alignment() { return facts_.alignment; }
    std::size_t max_size() { return facts_.max_size; }
    std::size_t alloc_size(const Tensor& tensor);
    Result<std::unique_ptr<RemoteBuffer>> allocate(std::size_t size);

private:
    RemoteDevice& device_;
    const std::size_t index_;
    const BufferTypeFacts& facts_;
    const std::string name_;
};

/// The worker's buffer that holds a tensor; null if it is in other memory.
RemoteBuffer* remote_buffer(const Tensor& tensor);

}  // namespace heddle::mpi
