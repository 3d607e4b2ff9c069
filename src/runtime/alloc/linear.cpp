#include "runtime/alloc/linear.hpp"

#include <bit>
#include <cstdint>

#include "runtime/buffer.hpp"
#include "runtime/placement.hpp"

namespace heddle {

Result<std::size_t> padded_size(const Tensor& tensor, std::size_t size, std::size_t alignment) {
    const std::size_t padded = (size + alignment - 1) & ~(alignment - 1);
    if (padded >= size && padded <= SIZE_MAX / 2) return padded;
    return failure(Errc::out_of_memory, "placing ", describe(tensor), ": ", size,
                   " bytes are more than any buffer has");
}

Result<LinearAllocator> make_linear_allocator(Buffer& buffer) {
    const std::size_t alignment = alignment_of(*buffer.buft);
    if (!std::has_single_bit(alignment)) {
        return invalid("buffer type '", name_of(buffer), "': an alignment of ", alignment,
                       " is not a power of two");
    }
    HEDDLE_TRY_ASSIGN(void* const base, base_of(buffer));
    const std::size_t past = reinterpret_cast<std::uintptr_t>(base) & (alignment - 1);
    return LinearAllocator{.buffer = &buffer,
                           .base = base,
                           .alignment = alignment,
                           .offset = past == 0 ? 0 : alignment - past};
}

Result<> allocate_next(LinearAllocator& allocator, Tensor& tensor) {
    Buffer& buffer = *allocator.buffer;
    HEDDLE_TRY_ASSIGN(
        const std::size_t size,
        padded_size(tensor, alloc_size_of(*buffer.buft, tensor), allocator.alignment));
    const std::size_t left =
        allocator.offset < buffer.size ? buffer.size - allocator.offset : std::size_t{0};
    if (size > left) {
        return failure(Errc::out_of_memory, "placing ", describe(tensor), ": it needs ", size,
                       " bytes, and of the ", buffer.size, " bytes of the buffer of type '",
                       name_of(buffer), "' ", left, " are left");
    }
    // Device addresses need not be addresses here, so no arithmetic on pointers.
    const auto base = reinterpret_cast<std::uintptr_t>(allocator.base);
    HEDDLE_TRY(place_tensor(buffer, tensor, reinterpret_cast<void*>(base + allocator.offset)));
    allocator.offset += size;
    return ok();
}

}  // namespace heddle
