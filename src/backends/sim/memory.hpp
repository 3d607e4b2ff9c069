#pragma once

#include <memory>
#include <string>

#include "backends/sim/board.hpp"
#include "core/tensor.hpp"
#include "heddle/backend.hpp"

/// Memory of simulated devices, and memory of the host that they can reach.
namespace heddle::sim {

/// Real bytes, aligned to 64.
class Bytes {
public:
    static Result<Bytes> make(std::size_t size);
    std::byte* data() const { return memory_.get(); }

private:
    struct Free {
        void operator()(std::byte* memory) const noexcept;
    };
    std::unique_ptr<std::byte, Free> memory_;
};

/// Memory of a device. Tensors have addresses in it that no CPU can have, so that code that
/// reads them on the host finds out at once; the real bytes are known here alone.
class SimBuffer {
public:
    static Result<std::unique_ptr<SimBuffer>> make(Board& board, std::size_t size);
    ~SimBuffer();
    SimBuffer(const SimBuffer&) = delete;
    SimBuffer& operator=(const SimBuffer&) = delete;

    void* base() const { return reinterpret_cast<void*>(base_); }
    Board& board() const { return board_; }

    /// The real address of byte `offset` of a tensor here; fails unless `size` bytes follow.
    Result<std::byte*> locate(const Tensor& tensor, std::size_t offset, std::size_t size) const;

    Result<> write_tensor(Tensor& tensor, std::size_t offset, std::span<const std::byte> bytes);
    Result<> read_tensor(const Tensor& tensor, std::size_t offset, std::span<std::byte> bytes);
    Result<> fill_tensor(Tensor& tensor, std::size_t offset, std::size_t size, std::uint8_t value);
    Result<> write_pieces(Tensor& tensor, const std::byte* data, plugin::Pieces pieces);
    Result<> read_pieces(const Tensor& tensor, std::byte* data, plugin::Pieces pieces);
    Result<> clear(std::uint8_t value);
    bool copy(const Tensor& from, Tensor& to);

private:
    SimBuffer(Board& board, Bytes bytes, std::size_t size);

    Board& board_;
    const Bytes bytes_;
    const std::size_t size_;
    const std::uintptr_t base_;
};

/// Memory of the host that a device reaches over its link.
class PinnedBuffer {
public:
    PinnedBuffer(Board& board, Bytes bytes, std::size_t size)
        : board_(board), bytes_(std::move(bytes)), size_(size) {}
    ~PinnedBuffer() { board_.drain(); }
    PinnedBuffer(const PinnedBuffer&) = delete;
    PinnedBuffer& operator=(const PinnedBuffer&) = delete;

    void* base() const { return bytes_.data(); }
    Board& board() const { return board_; }
    void write(std::size_t offset, std::span<const std::byte> bytes);
    void read(std::size_t offset, std::span<std::byte> bytes);
    void fill(std::size_t offset, std::size_t size, std::uint8_t value);
    void clear(std::uint8_t value) { fill(0, size_, value); }

private:
    Board& board_;
    const Bytes bytes_;
    const std::size_t size_;
};

/// Where a tensor's bytes really are.
struct Place {
    std::byte* data = nullptr;
    Board* board = nullptr;  ///< the device that can reach it
    bool on_device = false;  ///< else in memory of the host
};

/// The place of byte `offset` of a tensor; fails unless it is in memory of a simulated device, or
/// of the host for one, and `size` bytes follow.
Result<Place> place_of(const Tensor& tensor, std::size_t offset, std::size_t size);

/// Copies evenly spaced pieces between two places.
void copy_pieces(std::byte* to, std::size_t to_stride, const std::byte* from,
                 std::size_t from_stride, const plugin::Pieces& pieces);

/// Bytes from the first of the pieces to the end of the last, in the tensor.
std::size_t extent_of(const plugin::Pieces& pieces);

class SimMemory : public plugin::BufferType<SimMemory> {
public:
    SimMemory(ggml_backend_dev_t device, Board& board) : BufferType(device), board_(board) {}

    const char* name() { return board_.name.c_str(); }
    std::size_t alignment() { return 128; }
    std::size_t max_size() { return board_.parameters.max_buffer; }
    Result<std::unique_ptr<SimBuffer>> allocate(std::size_t size) {
        return SimBuffer::make(board_, size);
    }

private:
    Board& board_;
};

class PinnedMemory : public plugin::BufferType<PinnedMemory> {
public:
    PinnedMemory(ggml_backend_dev_t device, Board& board)
        : BufferType(device), board_(board), name_(board.name + "_Host") {}

    const char* name() { return name_.c_str(); }
    bool is_host() { return true; }
    Result<std::unique_ptr<PinnedBuffer>> allocate(std::size_t size);

private:
    Board& board_;
    const std::string name_;
};

}  // namespace heddle::sim
