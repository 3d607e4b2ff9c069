#include "backends/cuda/memory.hpp"

#include <algorithm>
#include <cstring>

#include "backends/cuda/peer_copies.hpp"
#include "core/root_buffer.hpp"

namespace heddle::cuda {
namespace {

/// Each thread's own default queue: calls of several threads do not wait for each other.
const cudaStream_t kThisThread = cudaStreamPerThread;

Result<> finish(cudaError_t enqueued, const Board& board, const char* what, std::size_t size) {
    const cudaError_t status = enqueued != cudaSuccess
                                   ? enqueued
                                   : order([] { return cudaStreamSynchronize(kThisThread); });
    return check(status, what, ' ', describe_bytes(size), ' ', "on ", board.name);
}

std::size_t extent_of(const plugin::Pieces& pieces) {
    return pieces.count == 0 ? 0 : (pieces.count - 1) * pieces.tensor_stride + pieces.size;
}

}  // namespace

// ---- memory of a device ------------------------------------------------------------------------

static_assert(plugin::Writes<CudaBuffer> && plugin::Reads<CudaBuffer> &&
              plugin::Fills<CudaBuffer> && plugin::WritesPieces<CudaBuffer> &&
              plugin::ReadsPieces<CudaBuffer> && plugin::CopiesTensors<CudaBuffer>);

Result<std::unique_ptr<CudaBuffer>> CudaBuffer::make(const Board& board, std::size_t size) {
    HEDDLE_TRY(board.select());
    const std::size_t bytes = std::max<std::size_t>(size, 1);
    void* memory = nullptr;
    const auto allocate = [&] {
        return board.options.is_managed ? cudaMallocManaged(&memory, bytes)
                                        : cudaMalloc(&memory, bytes);
    };
    HEDDLE_TRY(check(take(allocate), "allocating ", describe_bytes(size), " on ", board.name));
    return std::unique_ptr<CudaBuffer>(new CudaBuffer(board, DeviceMemory(memory), size));
}

Result<> CudaBuffer::write(std::size_t offset, std::span<const std::byte> bytes) {
    if (bytes.empty()) return ok();
    HEDDLE_TRY(board_.select());
    return finish(cudaMemcpyAsync(at(offset), bytes.data(), bytes.size(), cudaMemcpyHostToDevice,
                                  kThisThread),
                  board_, "writing", bytes.size());
}

Result<> CudaBuffer::read(std::size_t offset, std::span<std::byte> bytes) {
    if (bytes.empty()) return ok();
    HEDDLE_TRY(board_.select());
    return finish(cudaMemcpyAsync(bytes.data(), at(offset), bytes.size(), cudaMemcpyDeviceToHost,
                                  kThisThread),
                  board_, "reading", bytes.size());
}

Result<> CudaBuffer::fill(std::size_t offset, std::size_t size, std::uint8_t value) {
    if (size == 0) return ok();
    HEDDLE_TRY(board_.select());
    return finish(cudaMemsetAsync(at(offset), value, size, kThisThread), board_, "filling", size);
}

Result<> CudaBuffer::check_range(const Tensor& tensor, const plugin::Pieces& pieces) const {
    const auto origin = reinterpret_cast<std::uintptr_t>(base());
    const auto data = reinterpret_cast<std::uintptr_t>(tensor.data);
    const std::size_t begin = data - origin, size = extent_of(pieces);
    if (data >= origin && begin <= size_ && pieces.offset <= size_ - begin &&
        size <= size_ - begin - pieces.offset) {
        return ok();
    }
    return invalid(size, " bytes at offset ", pieces.offset, " of ", describe(tensor), " at ",
                   tensor.data, " are not inside the buffer's ", size_, " bytes");
}

Result<> CudaBuffer::write_pieces(Tensor& tensor, const std::byte* data, plugin::Pieces pieces) {
    HEDDLE_TRY(check_range(tensor, pieces));
    HEDDLE_TRY(board_.select());
    return finish(
        copy_pieces(Direction::to_device, static_cast<std::byte*>(tensor.data) + pieces.offset,
                    const_cast<std::byte*>(data), pieces, kThisThread),
        board_, "writing", pieces.count * pieces.size);
}

Result<> CudaBuffer::read_pieces(const Tensor& tensor, std::byte* data, plugin::Pieces pieces) {
    HEDDLE_TRY(check_range(tensor, pieces));
    HEDDLE_TRY(board_.select());
    return finish(
        copy_pieces(Direction::to_host, static_cast<std::byte*>(tensor.data) + pieces.offset, data,
                    pieces, kThisThread),
        board_, "reading", pieces.count * pieces.size);
}

Result<> CudaBuffer::copy_from(const CudaBuffer& source, const Tensor& from, Tensor& to) {
    const std::size_t size = byte_size(from);
    const plugin::Pieces whole{0, size, 1, 0, 0};
    HEDDLE_TRY(source.check_range(from, whole));
    HEDDLE_TRY(check_range(to, whole));
    HEDDLE_TRY(board_.select());
    return finish(
        copy_across(to.data, board_.ordinal, from.data, source.board().ordinal, size, kThisThread),
        board_, "copying", size);
}

bool CudaBuffer::copy(const Tensor& from, Tensor& to) {
    const CudaBuffer* source = buffer_of(from);
    if (source == nullptr) return false;
    if (!peer_copies().are_sound(source->board().ordinal, board_.ordinal)) return false;
    auto copied = copy_from(*source, from, to);
    // A copy that failed was tried: no other way is to be taken.
    if (!copied) plugin::report(std::move(copied).error().within(board_.name));
    return true;
}

CudaBuffer* buffer_of(const Tensor& tensor) {
    return plugin::buffer_cast<CudaBuffer>(root_buffer(tensor));
}

cudaError_t copy_pieces(Direction direction, std::byte* device, std::byte* host,
                        const plugin::Pieces& pieces, cudaStream_t stream) {
    const bool is_write = direction == Direction::to_device;
    const auto kind = is_write ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;
    if (pieces.count == 0 || pieces.size == 0) return cudaSuccess;
    // The driver's limit for the distance of rows; pieces that overlap have none.
    constexpr std::size_t kMaxPitch = 0x7fffffff;
    const std::size_t nearest = std::min(pieces.tensor_stride, pieces.host_stride);
    const std::size_t farthest = std::max(pieces.tensor_stride, pieces.host_stride);
    if (pieces.count > 1 && nearest >= pieces.size && farthest <= kMaxPitch) {
        return is_write ? cudaMemcpy2DAsync(device, pieces.tensor_stride, host, pieces.host_stride,
                                            pieces.size, pieces.count, kind, stream)
                        : cudaMemcpy2DAsync(host, pieces.host_stride, device, pieces.tensor_stride,
                                            pieces.size, pieces.count, kind, stream);
    }
    for (std::size_t i = 0; i < pieces.count; ++i) {
        std::byte* const there = device + i * pieces.tensor_stride;
        std::byte* const here = host + i * pieces.host_stride;
        const cudaError_t status = cudaMemcpyAsync(is_write ? there : here, is_write ? here : there,
                                                   pieces.size, kind, stream);
        if (status != cudaSuccess) return status;
    }
    return cudaSuccess;
}

cudaError_t copy_across(void* to, int to_ordinal, const void* from, int from_ordinal,
                        std::size_t size, cudaStream_t stream) {
    if (size == 0) return cudaSuccess;
    if (to_ordinal == from_ordinal) {
        return cudaMemcpyAsync(to, from, size, cudaMemcpyDeviceToDevice, stream);
    }
    return cudaMemcpyPeerAsync(to, to_ordinal, from, from_ordinal, size, stream);
}

// ---- memory of the host ------------------------------------------------------------------------

Result<ggml_backend_buffer_t> HostMemory::allocate_pinned(std::size_t size) {
    if (board_ == nullptr) return failure(Errc::not_found, "there is no CUDA device");
    if (!board_->options.is_pinned) return failure(Errc::unsupported, "GGML_CUDA_NO_PINNED is set");
    HEDDLE_TRY(board_->select());
    void* memory = nullptr;
    const auto allocate = [&] {
        return cudaHostAlloc(&memory, std::max<std::size_t>(size, 1), cudaHostAllocPortable);
    };
    HEDDLE_TRY(check(take(allocate), "page-locking ", describe_bytes(size), " of host memory"));
    return plugin::make_buffer(handle(), std::make_unique<PinnedBuffer>(PinnedMemory(memory)),
                               size);
}

Result<ggml_backend_buffer_t> HostMemory::allocate(std::size_t size) {
    return gpu::or_plain_memory(allocate_pinned(size), size);
}

}  // namespace heddle::cuda
