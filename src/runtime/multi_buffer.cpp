#include "runtime/multi_buffer.hpp"

#include <vector>

#include "runtime/buffer.hpp"

namespace heddle {
namespace {

using Parts = std::vector<Buffer*>;

Parts& parts_in(const Buffer* buffer) { return *static_cast<Parts*>(buffer->context); }

void free_parts(Buffer* buffer) {
    for (Buffer* part : parts_in(buffer)) free_buffer(part);
    delete &parts_in(buffer);
}

void clear_parts(Buffer* buffer, std::uint8_t value) {
    // The core has asked all parts whether they can, and tells the caller if not.
    for (Buffer* part : parts_in(buffer)) static_cast<void>(clear_buffer(*part, value));
}

void reset_parts(Buffer* buffer) {
    for (Buffer* part : parts_in(buffer)) reset_buffer(*part);
}

constexpr BufferTable kTable{.free_buffer = free_parts,
                             .get_base = nullptr,
                             .init_tensor = nullptr,
                             .memset_tensor = nullptr,
                             .set_tensor = nullptr,
                             .get_tensor = nullptr,
                             .set_tensor_2d = nullptr,
                             .get_tensor_2d = nullptr,
                             .cpy_tensor = nullptr,
                             .clear = clear_parts,
                             .reset = reset_parts};

}  // namespace

Result<OwnedBuffer> make_multi_buffer(std::span<Buffer* const> parts) {
    if (parts.empty()) return invalid("multi-buffer: no parts");
    std::size_t size = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        if (parts[i] == nullptr) return invalid("multi-buffer: part ", i, " is NULL");
        if (__builtin_add_overflow(size, parts[i]->size, &size)) {
            return invalid("multi-buffer: the sizes of its ", parts.size(),
                           " parts add up to more than can be addressed");
        }
    }
    auto copy = std::make_unique<Parts>(parts.begin(), parts.end());
    auto made = make_buffer(*parts[0]->buft, kTable, copy.get(), size);
    if (made) static_cast<void>(copy.release());  // now the buffer's
    return made;
}

bool is_multi_buffer(const Buffer& buffer) { return buffer.iface.free_buffer == free_parts; }

std::span<Buffer* const> parts_of(const Buffer& buffer) {
    if (!is_multi_buffer(buffer)) return {};
    return parts_in(&buffer);
}

}  // namespace heddle
