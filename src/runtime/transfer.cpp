#include "runtime/transfer.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>

#include "core/context.hpp"
#include "core/last_error.hpp"
#include "runtime/buffer.hpp"
#include "runtime/stream.hpp"

namespace heddle {
namespace {

/// Large enough that a device's link is busy, small enough to have ready at any time.
constexpr std::size_t kStagingSize = std::size_t{4} << 20;

// ---- checks ------------------------------------------------------------------------------------

/// The buffer that holds the bytes of `tensor`.
Result<Buffer*> holder(std::string_view doing, const Tensor& tensor) {
    Buffer* const buffer = root_buffer(tensor);
    if (buffer == nullptr) return invalid(doing, ' ', describe(tensor), ": it is in no buffer");
    if (has_lost_memory(tensor, *buffer)) {
        return invalid(doing, ' ', describe(tensor), kLostMemory);
    }
    return buffer;
}

Result<> check_has_data(std::string_view doing, const Tensor& tensor) {
    if (tensor.data != nullptr) return ok();
    return invalid(doing, ' ', describe(tensor), ": it has no memory");
}

Result<> check_range(std::string_view doing, const Tensor& tensor, std::size_t offset,
                     std::size_t size) {
    const std::size_t limit = byte_size(tensor);
    if (offset <= limit && size <= limit - offset) return ok();
    return invalid(doing, ' ', describe(tensor), ": ", size, " bytes at offset ", offset,
                   " reach past its ", limit, " bytes");
}

/// Fails unless an address of the host is one in its buffer.
Result<> check_inside(std::string_view doing, const Tensor& tensor, Buffer& buffer) {
    HEDDLE_TRY_ASSIGN(void* const base, base_of(buffer));
    if (base == nullptr) return ok();  // there is none to compare with
    const std::size_t begin =
        reinterpret_cast<std::uintptr_t>(tensor.data) - reinterpret_cast<std::uintptr_t>(base);
    if (begin <= buffer.size && byte_size(tensor) <= buffer.size - begin) return ok();
    return invalid(doing, ' ', describe(tensor), ": it is not inside its buffer of ", buffer.size,
                   " bytes");
}

Result<> check_host(std::string_view doing, const Tensor& tensor, const void* data) {
    if (data != nullptr) return ok();
    return invalid(doing, ' ', describe(tensor), ": the host memory is NULL");
}

/// Bytes from the start of the first piece to the end of the last.
bool span_of(const Pieces& pieces, std::size_t stride, std::size_t& span) {
    return !__builtin_mul_overflow(pieces.count - 1, stride, &span) &&
           !__builtin_add_overflow(span, pieces.size, &span);
}

/// Fails unless every piece lies in the tensor; there is at least one, of at least one byte.
Result<> check_pieces(std::string_view doing, const Tensor& tensor, std::size_t offset,
                      const Pieces& pieces) {
    std::size_t in_tensor = 0, in_data = 0;
    if (span_of(pieces, pieces.tensor_stride, in_tensor) &&
        span_of(pieces, pieces.data_stride, in_data)) {
        return check_range(doing, tensor, offset, in_tensor);
    }
    return invalid(doing, ' ', describe(tensor), ": ", pieces.count, " pieces of ", pieces.size,
                   " bytes, ", pieces.tensor_stride, " apart in the tensor and ",
                   pieces.data_stride, " apart in host memory, are more than can be addressed");
}

bool is_nothing(const Pieces& pieces) { return pieces.size == 0 || pieces.count == 0; }

/// All that must hold before bytes of a tensor are touched.
Result<> check_access(std::string_view doing, const Tensor& tensor, const void* data,
                      std::size_t offset, const Pieces& pieces) {
    HEDDLE_TRY(check_has_data(doing, tensor));
    HEDDLE_TRY(check_pieces(doing, tensor, offset, pieces));
    return check_host(doing, tensor, data);
}

Error cannot(std::string_view doing, const Tensor& tensor, Buffer& buffer) {
    return failure(Errc::unsupported, doing, ' ', describe(tensor), ": buffers of type '",
                   name_of(buffer), "' have no function for it");
}

constexpr std::string_view kWriting = "writing", kReading = "reading", kFilling = "filling",
                           kCopying = "copying";

// ---- once all is checked -----------------------------------------------------------------------

/// What came of the calls since `listener` was set up.
Result<> outcome(const Listener& listener, std::string_view doing, const Tensor& tensor) {
    if (!listener.heard()) [[likely]]
        return ok();
    return listener.outcome(doing, ' ', describe(tensor));
}

const std::byte* at(const void* data, std::size_t offset) {
    return static_cast<const std::byte*>(data) + offset;
}
std::byte* at(void* data, std::size_t offset) { return static_cast<std::byte*>(data) + offset; }

Result<> write_checked(Buffer& buffer, Tensor& tensor, const void* data, std::size_t offset,
                       const Pieces& pieces) {
    const Listener listener;
    if (pieces.count > 1 && buffer.iface.set_tensor_2d != nullptr) {
        buffer.iface.set_tensor_2d(&buffer, &tensor, data, offset, pieces.size, pieces.count,
                                   pieces.tensor_stride, pieces.data_stride);
    } else {
        for (std::size_t i = 0; i < pieces.count; ++i) {
            buffer.iface.set_tensor(&buffer, &tensor, at(data, i * pieces.data_stride),
                                    offset + i * pieces.tensor_stride, pieces.size);
        }
    }
    note_write(buffer);
    return outcome(listener, kWriting, tensor);
}

Result<> read_checked(Buffer& buffer, const Tensor& tensor, void* data, std::size_t offset,
                      const Pieces& pieces) {
    const Listener listener;
    if (pieces.count > 1 && buffer.iface.get_tensor_2d != nullptr) {
        buffer.iface.get_tensor_2d(&buffer, &tensor, data, offset, pieces.size, pieces.count,
                                   pieces.tensor_stride, pieces.data_stride);
    } else {
        for (std::size_t i = 0; i < pieces.count; ++i) {
            buffer.iface.get_tensor(&buffer, &tensor, at(data, i * pieces.data_stride),
                                    offset + i * pieces.tensor_stride, pieces.size);
        }
    }
    return outcome(listener, kReading, tensor);
}

bool can_write(const Buffer& buffer, const Pieces& pieces) {
    return buffer.iface.set_tensor != nullptr ||
           (pieces.count > 1 && buffer.iface.set_tensor_2d != nullptr);
}

bool can_read(const Buffer& buffer, const Pieces& pieces) {
    return buffer.iface.get_tensor != nullptr ||
           (pieces.count > 1 && buffer.iface.get_tensor_2d != nullptr);
}

// ---- copies ------------------------------------------------------------------------------------

/// Buffers that keep data in a layout of their own take and give whole tensors only. They show it
/// by what their tables lack.
bool takes_ranges(const Buffer& buffer) {
    return buffer.iface.get_tensor != nullptr && buffer.iface.memset_tensor != nullptr;
}

struct FreeAligned {
    void operator()(std::byte* memory) const { aligned_free(memory); }
};

/// Through host memory, a piece at a time.
Result<> copy_staged(const Tensor& src, Tensor& dst, Buffer& from, Buffer& to) {
    const std::size_t total = byte_size(src);
    const bool in_pieces = takes_ranges(from) && takes_ranges(to);
    const std::size_t step = in_pieces ? std::min(total, kStagingSize) : total;
    const std::unique_ptr<std::byte, FreeAligned> staging(
        static_cast<std::byte*>(aligned_allocate(step)));
    if (staging == nullptr) {
        return failure(Errc::out_of_memory, kCopying, ' ', describe(src),
                       ": no memory for a staging buffer of ", step, " bytes");
    }
    for (std::size_t done = 0; done < total;) {
        const Pieces piece{.size = std::min(step, total - done), .count = 1};
        HEDDLE_TRY(read_checked(from, src, staging.get(), done, piece));
        HEDDLE_TRY(write_checked(to, dst, staging.get(), done, piece));
        done += piece.size;
    }
    return ok();
}

Result<> check_same_layout(const Tensor& src, const Tensor& dst) {
    if (same_layout(src, dst)) return ok();
    return invalid(kCopying, ' ', describe(src), " to ", describe(dst),
                   ": type, extents and strides must be the same");
}

}  // namespace

// ---- blocking ----------------------------------------------------------------------------------

Result<> write_tensor(Tensor& tensor, const void* data, std::size_t offset, std::size_t size) {
    return write_tensor(tensor, data, offset, Pieces{.size = size, .count = 1});
}

Result<> read_tensor(const Tensor& tensor, void* data, std::size_t offset, std::size_t size) {
    return read_tensor(tensor, data, offset, Pieces{.size = size, .count = 1});
}

Result<> write_tensor(Tensor& tensor, const void* data, std::size_t offset, const Pieces& pieces) {
    HEDDLE_TRY_ASSIGN(Buffer* const buffer, holder(kWriting, tensor));
    if (is_nothing(pieces)) return ok();
    HEDDLE_TRY(check_access(kWriting, tensor, data, offset, pieces));
    if (!can_write(*buffer, pieces)) return cannot(kWriting, tensor, *buffer);
    return write_checked(*buffer, tensor, data, offset, pieces);
}

Result<> read_tensor(const Tensor& tensor, void* data, std::size_t offset, const Pieces& pieces) {
    HEDDLE_TRY_ASSIGN(Buffer* const buffer, holder(kReading, tensor));
    if (is_nothing(pieces)) return ok();
    HEDDLE_TRY(check_access(kReading, tensor, data, offset, pieces));
    if (!can_read(*buffer, pieces)) return cannot(kReading, tensor, *buffer);
    return read_checked(*buffer, tensor, data, offset, pieces);
}

Result<> fill_tensor(Tensor& tensor, std::uint8_t value, std::size_t offset, std::size_t size) {
    if (size == 0) return ok();
    HEDDLE_TRY_ASSIGN(Buffer* const buffer, holder(kFilling, tensor));
    HEDDLE_TRY(check_has_data(kFilling, tensor));
    HEDDLE_TRY(check_range(kFilling, tensor, offset, size));
    if (buffer->iface.memset_tensor == nullptr) return cannot(kFilling, tensor, *buffer);
    const Listener listener;
    buffer->iface.memset_tensor(buffer, &tensor, value, offset, size);
    note_write(*buffer);
    return outcome(listener, kFilling, tensor);
}

Result<> zero_tensor(Tensor& tensor) {
    if (is_empty(tensor)) return ok();
    const std::size_t size = byte_size(tensor);
    if (root_buffer(tensor) != nullptr) return fill_tensor(tensor, 0, 0, size);
    HEDDLE_TRY(check_has_data(kFilling, tensor));
    std::memset(tensor.data, 0, size);
    return ok();
}

Result<> copy_tensor(const Tensor& src, Tensor& dst) {
    HEDDLE_TRY(check_same_layout(src, dst));
    if (&src == &dst) return ok();
    HEDDLE_TRY_ASSIGN(Buffer* const from, holder(kCopying, src));
    HEDDLE_TRY_ASSIGN(Buffer* const to, holder(kCopying, dst));
    const std::size_t size = byte_size(src);
    if (size == 0) return ok();
    HEDDLE_TRY(check_has_data(kCopying, src));
    HEDDLE_TRY(check_has_data(kCopying, dst));
    if (is_host(*from)) {
        HEDDLE_TRY(check_inside(kCopying, src, *from));
        return write_tensor(dst, src.data, 0, size);
    }
    if (is_host(*to)) {
        HEDDLE_TRY(check_inside(kCopying, dst, *to));
        HEDDLE_TRY(read_tensor(src, dst.data, 0, size));
        note_write(*to);
        return ok();
    }
    const Listener listener;
    if (copy_by_destination(src, dst)) return outcome(listener, kCopying, src);
    const Pieces whole{.size = size, .count = 1};
    if (!can_read(*from, whole)) return cannot(kReading, src, *from);
    if (!can_write(*to, whole)) return cannot(kWriting, dst, *to);
    return copy_staged(src, dst, *from, *to);
}

bool copy_by_destination(const Tensor& src, Tensor& dst) {
    Buffer* to = root_buffer(dst);
    if (to == nullptr || to->iface.cpy_tensor == nullptr) return false;
    if (!same_layout(src, dst)) return false;  // tables copy as many bytes as one of both has
    // A view that was made before its root had memory has a buffer, and no address in it.
    if (src.data == nullptr || dst.data == nullptr) return false;
    const Buffer* const from = root_buffer(src);
    if (from != nullptr && has_lost_memory(src, *from)) return false;
    if (!to->iface.cpy_tensor(to, &src, &dst)) return false;
    note_write(*to);
    return true;
}

// ---- in the order of a stream ------------------------------------------------------------------

Result<> write_tensor_async(Stream& stream, Tensor& tensor, const void* data, std::size_t offset,
                            std::size_t size) {
    return write_tensor_async(stream, tensor, data, offset, Pieces{.size = size, .count = 1});
}

Result<> read_tensor_async(Stream& stream, const Tensor& tensor, void* data, std::size_t offset,
                           std::size_t size) {
    return read_tensor_async(stream, tensor, data, offset, Pieces{.size = size, .count = 1});
}

Result<> write_tensor_async(Stream& stream, Tensor& tensor, const void* data, std::size_t offset,
                            const Pieces& pieces) {
    HEDDLE_TRY_ASSIGN(Buffer* const buffer, holder(kWriting, tensor));
    HEDDLE_TRY(check_has_data(kWriting, tensor));
    if (is_nothing(pieces)) return ok();
    HEDDLE_TRY(check_access(kWriting, tensor, data, offset, pieces));
    const Listener listener;
    if (pieces.count > 1 && stream.iface.set_tensor_2d_async != nullptr) {
        stream.iface.set_tensor_2d_async(&stream, &tensor, data, offset, pieces.size, pieces.count,
                                         pieces.tensor_stride, pieces.data_stride);
    } else if (stream.iface.set_tensor_async != nullptr) {
        for (std::size_t i = 0; i < pieces.count; ++i) {
            stream.iface.set_tensor_async(&stream, &tensor, at(data, i * pieces.data_stride),
                                          offset + i * pieces.tensor_stride, pieces.size);
        }
    } else {
        HEDDLE_TRY(finish(stream));
        return write_tensor(tensor, data, offset, pieces);
    }
    note_write(*buffer);
    return outcome(listener, kWriting, tensor);
}

Result<> read_tensor_async(Stream& stream, const Tensor& tensor, void* data, std::size_t offset,
                           const Pieces& pieces) {
    HEDDLE_TRY(holder(kReading, tensor));
    HEDDLE_TRY(check_has_data(kReading, tensor));
    if (is_nothing(pieces)) return ok();
    HEDDLE_TRY(check_access(kReading, tensor, data, offset, pieces));
    const Listener listener;
    if (pieces.count > 1 && stream.iface.get_tensor_2d_async != nullptr) {
        stream.iface.get_tensor_2d_async(&stream, &tensor, data, offset, pieces.size, pieces.count,
                                         pieces.tensor_stride, pieces.data_stride);
    } else if (stream.iface.get_tensor_async != nullptr) {
        for (std::size_t i = 0; i < pieces.count; ++i) {
            stream.iface.get_tensor_async(&stream, &tensor, at(data, i * pieces.data_stride),
                                          offset + i * pieces.tensor_stride, pieces.size);
        }
    } else {
        HEDDLE_TRY(finish(stream));
        return read_tensor(tensor, data, offset, pieces);
    }
    return outcome(listener, kReading, tensor);
}

Result<> copy_tensor_async(Stream& from, Stream& to, const Tensor& src, Tensor& dst) {
    HEDDLE_TRY(check_same_layout(src, dst));
    if (&src == &dst) return ok();
    HEDDLE_TRY(holder(kCopying, src));
    HEDDLE_TRY_ASSIGN(Buffer* const target, holder(kCopying, dst));
    if (byte_size(src) == 0) return ok();
    HEDDLE_TRY(check_has_data(kCopying, src));
    HEDDLE_TRY(check_has_data(kCopying, dst));
    const Listener listener;
    if (to.iface.cpy_tensor_async != nullptr && to.iface.cpy_tensor_async(&from, &to, &src, &dst)) {
        note_write(*target);
        return outcome(listener, kCopying, src);
    }
    HEDDLE_TRY(finish(from));
    if (&from != &to) HEDDLE_TRY(finish(to));
    return copy_tensor(src, dst);
}

}  // namespace heddle
