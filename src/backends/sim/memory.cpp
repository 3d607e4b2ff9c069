#include "backends/sim/memory.hpp"

#include <atomic>
#include <cstring>
#include <new>

#include "core/context.hpp"
#include "core/root_buffer.hpp"

namespace heddle::sim {
namespace {

/// Where addresses of devices begin: in the gap between the halves of the address space that no
/// 64-bit CPU maps.
constexpr std::uintptr_t kFirstAddress = 0x51D0'0000'0000'0000;
constexpr std::uintptr_t kPage = 4096;

/// Addresses for a buffer, never given twice, with a gap behind them.
std::uintptr_t reserve_addresses(std::size_t size) {
    static std::atomic<std::uintptr_t> next{kFirstAddress};
    return next.fetch_add((size + 2 * kPage - 1) / kPage * kPage, std::memory_order_relaxed);
}

Result<> check_range(std::uintptr_t base, std::size_t buffer_size, const Tensor& tensor,
                     std::size_t offset, std::size_t size) {
    const std::uintptr_t data = reinterpret_cast<std::uintptr_t>(tensor.data);
    const std::size_t begin = data - base;
    if (data >= base && begin <= buffer_size && offset <= buffer_size - begin &&
        size <= buffer_size - begin - offset) {
        return ok();
    }
    return invalid(size, " bytes at offset ", offset, " of ", describe(tensor), " at ", tensor.data,
                   " are not inside the buffer's ", buffer_size, " bytes");
}

}  // namespace

// ---- bytes -------------------------------------------------------------------------------------

void Bytes::Free::operator()(std::byte* memory) const noexcept { aligned_free(memory); }

Result<Bytes> Bytes::make(std::size_t size) {
    Bytes bytes;
    bytes.memory_.reset(static_cast<std::byte*>(aligned_allocate(size)));
    if (bytes.memory_ == nullptr) {
        return failure(Errc::out_of_memory, "the host has no ", size, " bytes to simulate with");
    }
    return bytes;
}

std::size_t extent_of(const plugin::Pieces& pieces) {
    return pieces.count == 0 ? 0 : (pieces.count - 1) * pieces.tensor_stride + pieces.size;
}

void copy_pieces(std::byte* to, std::size_t to_stride, const std::byte* from,
                 std::size_t from_stride, const plugin::Pieces& pieces) {
    for (std::size_t i = 0; i < pieces.count; ++i) {
        std::memcpy(to + i * to_stride, from + i * from_stride, pieces.size);
    }
}

// ---- memory of a device ------------------------------------------------------------------------

SimBuffer::SimBuffer(Board& board, Bytes bytes, std::size_t size)
    : board_(board), bytes_(std::move(bytes)), size_(size), base_(reserve_addresses(size)) {}

Result<std::unique_ptr<SimBuffer>> SimBuffer::make(Board& board, std::size_t size) {
    HEDDLE_TRY(board.take(size));
    auto bytes = Bytes::make(size);
    if (bytes) {
        auto* made = new (std::nothrow) SimBuffer(board, *std::move(bytes), size);
        if (made != nullptr) return std::unique_ptr<SimBuffer>(made);
        bytes = Error{Errc::out_of_memory, "out of memory"};
    }
    board.give_back(size);
    return std::move(bytes).error();
}

SimBuffer::~SimBuffer() {
    board_.drain();  // jobs may still use it
    board_.give_back(size_);
}

Result<std::byte*> SimBuffer::locate(const Tensor& tensor, std::size_t offset,
                                     std::size_t size) const {
    HEDDLE_TRY(check_range(base_, size_, tensor, offset, size));
    return bytes_.data() + (reinterpret_cast<std::uintptr_t>(tensor.data) - base_) + offset;
}

Result<> SimBuffer::write_tensor(Tensor& tensor, std::size_t offset,
                                 std::span<const std::byte> bytes) {
    HEDDLE_TRY_ASSIGN(std::byte* const to, locate(tensor, offset, bytes.size()));
    HEDDLE_TRY(board_.timeline.transfer(nullptr, Direction::in, bytes.size(), name_of(tensor)));
    std::memcpy(to, bytes.data(), bytes.size());
    return ok();
}

Result<> SimBuffer::read_tensor(const Tensor& tensor, std::size_t offset,
                                std::span<std::byte> bytes) {
    HEDDLE_TRY_ASSIGN(const std::byte* const from, locate(tensor, offset, bytes.size()));
    HEDDLE_TRY(board_.timeline.transfer(nullptr, Direction::out, bytes.size(), name_of(tensor)));
    std::memcpy(bytes.data(), from, bytes.size());
    return ok();
}

Result<> SimBuffer::fill_tensor(Tensor& tensor, std::size_t offset, std::size_t size,
                                std::uint8_t value) {
    HEDDLE_TRY_ASSIGN(std::byte* const to, locate(tensor, offset, size));
    HEDDLE_TRY(board_.timeline.fill(size, name_of(tensor)));
    std::memset(to, value, size);
    return ok();
}

Result<> SimBuffer::write_pieces(Tensor& tensor, const std::byte* data, plugin::Pieces pieces) {
    HEDDLE_TRY_ASSIGN(std::byte* const to, locate(tensor, pieces.offset, extent_of(pieces)));
    HEDDLE_TRY(board_.timeline.transfer(nullptr, Direction::in, pieces.count * pieces.size,
                                        name_of(tensor)));
    copy_pieces(to, pieces.tensor_stride, data, pieces.host_stride, pieces);
    return ok();
}

Result<> SimBuffer::read_pieces(const Tensor& tensor, std::byte* data, plugin::Pieces pieces) {
    HEDDLE_TRY_ASSIGN(const std::byte* const from,
                      locate(tensor, pieces.offset, extent_of(pieces)));
    HEDDLE_TRY(board_.timeline.transfer(nullptr, Direction::out, pieces.count * pieces.size,
                                        name_of(tensor)));
    copy_pieces(data, pieces.host_stride, from, pieces.tensor_stride, pieces);
    return ok();
}

Result<> SimBuffer::clear(std::uint8_t value) {
    HEDDLE_TRY(board_.timeline.fill(size_, "buffer"));
    std::memset(bytes_.data(), value, size_);
    return ok();
}

bool SimBuffer::copy(const Tensor& from, Tensor& to) {
    const std::size_t size = byte_size(from);
    const auto origin = place_of(from, 0, size);
    const auto target = locate(to, 0, size);
    if (!origin || !origin->on_device || !target) return false;
    if (!board_.timeline.shares_clock_with(origin->board->timeline)) return false;
    auto span = Timeline::copy(origin->board->timeline, nullptr, board_.timeline, nullptr, size,
                               name_of(from));
    if (span) {
        std::memmove(*target, origin->data, size);
    } else {
        // Not a pair that is not supported but one that failed: no other way is to be tried.
        plugin::report(std::move(span).error().within(board_.name));
    }
    return true;
}

// ---- memory of the host ------------------------------------------------------------------------

void PinnedBuffer::write(std::size_t offset, std::span<const std::byte> bytes) {
    std::memcpy(bytes_.data() + offset, bytes.data(), bytes.size());
}

void PinnedBuffer::read(std::size_t offset, std::span<std::byte> bytes) {
    std::memcpy(bytes.data(), bytes_.data() + offset, bytes.size());
}

void PinnedBuffer::fill(std::size_t offset, std::size_t size, std::uint8_t value) {
    std::memset(bytes_.data() + offset, value, size);
}

Result<std::unique_ptr<PinnedBuffer>> PinnedMemory::allocate(std::size_t size) {
    HEDDLE_TRY_ASSIGN(Bytes bytes, Bytes::make(size));
    return std::make_unique<PinnedBuffer>(board_, std::move(bytes), size);
}

Result<Place> place_of(const Tensor& tensor, std::size_t offset, std::size_t size) {
    ggml_backend_buffer_t buffer = root_buffer(tensor);
    if (const auto* own = plugin::buffer_cast<SimBuffer>(buffer)) {
        HEDDLE_TRY_ASSIGN(std::byte* const data, own->locate(tensor, offset, size));
        return Place{data, &own->board(), true};
    }
    if (const auto* pinned = plugin::buffer_cast<PinnedBuffer>(buffer)) {
        const auto base = reinterpret_cast<std::uintptr_t>(pinned->base());
        HEDDLE_TRY(check_range(base, buffer->size, tensor, offset, size));
        return Place{static_cast<std::byte*>(tensor.data) + offset, &pinned->board(), false};
    }
    if (buffer == nullptr) return invalid(describe(tensor), " is in no buffer");
    return invalid(describe(tensor), " is in memory of type ", ggml_backend_buffer_name(buffer),
                   ", which simulated devices cannot reach");
}

}  // namespace heddle::sim
