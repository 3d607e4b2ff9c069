#include "runtime/placement.hpp"

#include <bit>
#include <cstdint>

#include "runtime/buffer.hpp"

namespace heddle {
namespace {

/// Fails unless `size` bytes from `address` on lie in `buffer`. Addresses may be a device's own.
Result<> check_range(Buffer& buffer, const Tensor& tensor, const void* address, std::size_t size) {
    HEDDLE_TRY_ASSIGN(void* const start, base_of(buffer));
    const auto base = reinterpret_cast<std::uintptr_t>(start);
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    if (at < base) {
        return invalid("placing ", describe(tensor), ": address ", address,
                       " lies before the buffer, which begins at ", start);
    }
    const std::size_t offset = at - base;
    if (offset <= buffer.size && size <= buffer.size - offset) return ok();
    return invalid("placing ", describe(tensor), ": ", size, " bytes at offset ", offset,
                   " reach past the ", buffer.size, " bytes of the buffer of type '",
                   name_of(buffer), '\'');
}

Result<> check_alignment(Buffer& buffer, const Tensor& tensor, const void* address) {
    const std::size_t alignment = alignment_of(*buffer.buft);
    if (!std::has_single_bit(alignment)) {
        return invalid("buffer type '", name_of(buffer), "': an alignment of ", alignment,
                       " is not a power of two");
    }
    if (reinterpret_cast<std::uintptr_t>(address) % alignment == 0) return ok();
    return invalid("placing ", describe(tensor), ": address ", address, " is not aligned to the ",
                   alignment, " bytes of buffer type '", name_of(buffer), '\'');
}

/// Gives the tensor its place, and takes it back if the backend refuses it.
Result<> settle(Buffer& buffer, Tensor& tensor, void* address) {
    void* const before = tensor.data;
    tensor.buffer = &buffer;
    tensor.data = address;
    auto prepared = init_tensor(buffer, tensor);
    if (!prepared) {
        tensor.buffer = nullptr;
        tensor.data = before;
    }
    return prepared;
}

}  // namespace

Result<> place_tensor(Buffer& buffer, Tensor& tensor, void* address) {
    if (tensor.view_src != nullptr) {
        return invalid("placing ", describe(tensor), ": it is a view of ",
                       describe(*tensor.view_src), " and lives there");
    }
    if (tensor.buffer != nullptr || tensor.data != nullptr) {
        return invalid("placing ", describe(tensor), ": it has memory already");
    }
    HEDDLE_TRY(check_range(buffer, tensor, address, alloc_size_of(*buffer.buft, tensor)));
    HEDDLE_TRY(check_alignment(buffer, tensor, address));
    return settle(buffer, tensor, address);
}

Result<> place_view(Tensor& view) {
    const Tensor* root = view.view_src;
    if (root == nullptr) return invalid("placing ", describe(view), ": it is no view");
    if (view.buffer != nullptr) {
        return invalid("placing ", describe(view), ": the view has a buffer already");
    }
    if (root->buffer == nullptr || root->data == nullptr) {
        return invalid("placing ", describe(view), ": ", describe(*root),
                       ", which it is a view of, has no memory");
    }
    const auto origin = reinterpret_cast<std::uintptr_t>(root->data);
    std::uintptr_t address = 0;
    if (__builtin_add_overflow(origin, view.view_offs, &address)) {
        return invalid("placing ", describe(view), ": offset ", view.view_offs,
                       " leaves the address space");
    }
    void* const data = reinterpret_cast<void*>(address);
    if (root->buffer->iface.get_base != nullptr && !is_empty(view)) {
        HEDDLE_TRY(check_range(*root->buffer, view, data, byte_size(view)));
    }
    return settle(*root->buffer, view, data);
}

}  // namespace heddle
