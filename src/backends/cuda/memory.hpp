#pragma once

#include <memory>
#include <string>

#include "backends/cuda/board.hpp"
#include "backends/gpu/host_memory.hpp"
#include "heddle/backend.hpp"

/// Memory of CUDA devices, and page-locked memory of the host.
namespace heddle::cuda {

/// Memory of a device. Every call has done its work when it returns and is ordered after nothing
/// that streams have queued.
class CudaBuffer {
public:
    static Result<std::unique_ptr<CudaBuffer>> make(const Board& board, std::size_t size);

    void* base() const { return memory_.get(); }
    const Board& board() const { return board_; }

    Result<> write(std::size_t offset, std::span<const std::byte> bytes);
    Result<> read(std::size_t offset, std::span<std::byte> bytes);
    Result<> fill(std::size_t offset, std::size_t size, std::uint8_t value);
    Result<> write_pieces(Tensor& tensor, const std::byte* data, plugin::Pieces pieces);
    Result<> read_pieces(const Tensor& tensor, std::byte* data, plugin::Pieces pieces);

    /// From memory of any of these devices; false for other memory, and where copies between the
    /// two are not sound.
    bool copy(const Tensor& from, Tensor& to);

    /// Fails unless the pieces of `tensor` lie inside this buffer.
    Result<> check_range(const Tensor& tensor, const plugin::Pieces& pieces) const;

private:
    Result<> copy_from(const CudaBuffer& source, const Tensor& from, Tensor& to);
    CudaBuffer(const Board& board, DeviceMemory memory, std::size_t size)
        : board_(board), memory_(std::move(memory)), size_(size) {}
    std::byte* at(std::size_t offset) const {
        return static_cast<std::byte*>(memory_.get()) + offset;
    }

    const Board& board_;
    const DeviceMemory memory_;
    const std::size_t size_;
};

/// The CudaBuffer that `tensor` lies in, views included; null for any other memory.
CudaBuffer* buffer_of(const Tensor& tensor);

enum class Direction { to_device, to_host };

/// Enqueues copies of evenly spaced pieces between a device and the host.
cudaError_t copy_pieces(Direction direction, std::byte* device, std::byte* host,
                        const plugin::Pieces& pieces, cudaStream_t stream);

/// Enqueues a copy between two devices, which may be one.
cudaError_t copy_across(void* to, int to_ordinal, const void* from, int from_ordinal,
                        std::size_t size, cudaStream_t stream);

/// Device memory as a buffer type.
class CudaMemory : public plugin::BufferType<CudaMemory> {
public:
    CudaMemory(ggml_backend_dev_t device, const Board& board) : BufferType(device), board_(board) {}

    const char* name() { return board_.name.c_str(); }
    std::size_t alignment() { return 128; }
    Result<std::unique_ptr<CudaBuffer>> allocate(std::size_t size) {
        return CudaBuffer::make(board_, size);
    }

private:
    const Board& board_;
};

/// Host memory that devices transfer fast.
class PinnedBuffer : public gpu::HostBytes<PinnedBuffer> {
public:
    explicit PinnedBuffer(PinnedMemory memory) : memory_(std::move(memory)) {}

    void* base() const { return memory_.get(); }

private:
    const PinnedMemory memory_;
};

/// Page-locked memory; ordinary memory of the CPU where that is refused or there is no
/// device.
class HostMemory : public plugin::BufferType<HostMemory> {
public:
    HostMemory(ggml_backend_dev_t device, const Board* board) : BufferType(device), board_(board) {}

    const char* name() { return "CUDA_Host"; }
    std::size_t alignment() { return 32; }
    bool is_host() { return true; }
    Result<ggml_backend_buffer_t> allocate(std::size_t size);

private:
    Result<ggml_backend_buffer_t> allocate_pinned(std::size_t size);

    const Board* board_;  ///< null: there is no device
};

}  // namespace heddle::cuda
