/// Buffers and buffer types: from ordinary classes to the tables of the plug-in interface.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "guard.hpp"

namespace heddle::plugin {

/// Evenly spaced pieces of a tensor and of host memory.
struct Pieces {
    std::size_t offset;         ///< first byte in the tensor
    std::size_t size;           ///< bytes of each piece
    std::size_t count;          ///< number of pieces
    std::size_t tensor_stride;  ///< bytes from piece to piece in the tensor
    std::size_t host_stride;    ///< bytes from piece to piece in host memory
};

// What a buffer class may have. `write`, `read` and `fill` count bytes from the beginning of the
// buffer. A buffer that must know the tensor (because it keeps weights in a layout of its own) has
// `write_tensor`, `read_tensor`, `fill_tensor` instead, which count from the tensor's beginning.
// All of them may return `Result<>` or nothing, and may throw.

template <class T>
concept HasBase = requires(T& t) {
    { t.base() } -> std::convertible_to<void*>;
};
template <class T>
concept Writes = requires(T& t, std::span<const std::byte> bytes) {
    t.write(std::size_t{}, bytes);
};
template <class T>
concept WritesTensors = requires(T& t, ggml_tensor& tensor, std::span<const std::byte> bytes) {
    t.write_tensor(tensor, std::size_t{}, bytes);
};
template <class T>
concept Reads = requires(T& t, std::span<std::byte> bytes) {
    t.read(std::size_t{}, bytes);
};
template <class T>
concept ReadsTensors = requires(T& t, const ggml_tensor& tensor, std::span<std::byte> bytes) {
    t.read_tensor(tensor, std::size_t{}, bytes);
};
template <class T>
concept Fills = requires(T& t) {
    t.fill(std::size_t{}, std::size_t{}, std::uint8_t{});
};
template <class T>
concept FillsTensors = requires(T& t, ggml_tensor& tensor) {
    t.fill_tensor(tensor, std::size_t{}, std::size_t{}, std::uint8_t{});
};
template <class T>
concept Clears = requires(T& t) {
    t.clear(std::uint8_t{});
};
template <class T>
concept WritesPieces = requires(T& t, ggml_tensor& tensor, const std::byte* data, Pieces pieces) {
    t.write_pieces(tensor, data, pieces);
};
template <class T>
concept ReadsPieces = requires(T& t, const ggml_tensor& tensor, std::byte* data, Pieces pieces) {
    t.read_pieces(tensor, data, pieces);
};
template <class T>
concept PreparesTensors = requires(T& t, ggml_tensor& tensor) {
    t.prepare(tensor);
};
template <class T>
concept CopiesTensors = requires(T& t, const ggml_tensor& from, ggml_tensor& to) {
    { t.copy(from, to) } -> std::convertible_to<bool>;
};
template <class T>
concept Resets = requires(T& t) {
    t.reset();
};

/// What every buffer has: memory, and a way to put data there.
template <class T>
concept BufferImpl = HasBase<T> &&(Writes<T> || WritesTensors<T>)&&(Clears<T> || Fills<T>);

/// The table of buffers of class B. What B lacks is NULL, and the library's fallback applies.
template <BufferImpl B>
class BufferTable {
public:
    static ggml_backend_buffer_i make() noexcept {
        ggml_backend_buffer_i table = {};
        table.free_buffer = free_buffer;
        table.get_base = [](ggml_backend_buffer_t buffer) -> void* {
            return attempt_or<void*>(nullptr, in(buffer, "base"),
                                     [&] { return self(buffer).base(); });
        };
        table.clear = [](ggml_backend_buffer_t buffer, std::uint8_t value) {
            attempt_status(in(buffer, "clear"), [&] {
                if constexpr (Clears<B>)
                    return self(buffer).clear(value);
                else
                    return self(buffer).fill(0, buffer->size, value);
            });
        };
        add_access(table);
        add_pieces(table);
        add_rest(table);
        return table;
    }

    /// Also tells our buffers from others: see buffer_cast().
    static void free_buffer(ggml_backend_buffer_t buffer) { delete &self(buffer); }

    static B& self(ggml_backend_buffer_t buffer) noexcept {
        return *static_cast<B*>(buffer->context);
    }

private:
    static auto in(ggml_backend_buffer_t buffer, const char* what) noexcept {
        return [=] {
            return text("buffer of type ", buffer->buft->iface.get_name(buffer->buft), ": ", what);
        };
    }
    static auto in(ggml_backend_buffer_t buffer, const char* what,
                   const ggml_tensor* tensor) noexcept {
        return [=] { return text(in(buffer, what)(), ' ', quoted(*tensor)); };
    }

    /// Where byte `offset` of `tensor` lies in the buffer; fails unless `size` bytes are there.
    static Result<std::size_t> position(ggml_backend_buffer_t buffer, const ggml_tensor* tensor,
                                        std::size_t offset, std::size_t size) {
        const auto base = reinterpret_cast<std::uintptr_t>(self(buffer).base());
        const auto data = reinterpret_cast<std::uintptr_t>(tensor->data);
        const std::size_t begin = data - base;
        if (data < base || begin > buffer->size || offset > buffer->size - begin ||
            size > buffer->size - begin - offset) {
            return invalid(size, " bytes at offset ", offset, " of a tensor at ", tensor->data,
                           " are not inside the buffer's ", buffer->size, " bytes");
        }
        return begin + offset;
    }

    static void add_access(ggml_backend_buffer_i& table) noexcept {
        table.set_tensor = [](ggml_backend_buffer_t buffer, ggml_tensor* tensor, const void* data,
                              std::size_t offset, std::size_t size) {
            attempt_status(in(buffer, "write", tensor), [&]() -> Result<> {
                const std::span bytes(static_cast<const std::byte*>(data), size);
                if constexpr (WritesTensors<B>) {
                    return attempt(
                        [&] { return self(buffer).write_tensor(*tensor, offset, bytes); });
                } else {
                    HEDDLE_TRY_ASSIGN(const std::size_t at, position(buffer, tensor, offset, size));
                    return attempt([&] { return self(buffer).write(at, bytes); });
                }
            });
        };
        if constexpr (Reads<B> || ReadsTensors<B>) {
            table.get_tensor = [](ggml_backend_buffer_t buffer, const ggml_tensor* tensor,
                                  void* data, std::size_t offset, std::size_t size) {
                attempt_status(in(buffer, "read", tensor), [&]() -> Result<> {
                    const std::span bytes(static_cast<std::byte*>(data), size);
                    if constexpr (ReadsTensors<B>) {
                        return attempt(
                            [&] { return self(buffer).read_tensor(*tensor, offset, bytes); });
                    } else {
                        HEDDLE_TRY_ASSIGN(const std::size_t at,
                                          position(buffer, tensor, offset, size));
                        return attempt([&] { return self(buffer).read(at, bytes); });
                    }
                });
            };
        }
        if constexpr (Fills<B> || FillsTensors<B>) {
            table.memset_tensor = [](ggml_backend_buffer_t buffer, ggml_tensor* tensor,
                                     std::uint8_t value, std::size_t offset, std::size_t size) {
                attempt_status(in(buffer, "fill", tensor), [&]() -> Result<> {
                    if constexpr (FillsTensors<B>) {
                        return attempt(
                            [&] { return self(buffer).fill_tensor(*tensor, offset, size, value); });
                    } else {
                        HEDDLE_TRY_ASSIGN(const std::size_t at,
                                          position(buffer, tensor, offset, size));
                        return attempt([&] { return self(buffer).fill(at, size, value); });
                    }
                });
            };
        }
    }

    static void add_pieces(ggml_backend_buffer_i& table) noexcept {
        if constexpr (WritesPieces<B>) {
            table.set_tensor_2d = [](ggml_backend_buffer_t buffer, ggml_tensor* tensor,
                                     const void* data, std::size_t offset, std::size_t size,
                                     std::size_t count, std::size_t tensor_stride,
                                     std::size_t host_stride) {
                attempt_status(in(buffer, "write pieces of", tensor), [&] {
                    return self(buffer).write_pieces(
                        *tensor, static_cast<const std::byte*>(data),
                        {offset, size, count, tensor_stride, host_stride});
                });
            };
        }
        if constexpr (ReadsPieces<B>) {
            table.get_tensor_2d = [](ggml_backend_buffer_t buffer, const ggml_tensor* tensor,
                                     void* data, std::size_t offset, std::size_t size,
                                     std::size_t count, std::size_t tensor_stride,
                                     std::size_t host_stride) {
                attempt_status(in(buffer, "read pieces of", tensor), [&] {
                    return self(buffer).read_pieces(
                        *tensor, static_cast<std::byte*>(data),
                        {offset, size, count, tensor_stride, host_stride});
                });
            };
        }
    }

    static void add_rest(ggml_backend_buffer_i& table) noexcept {
        if constexpr (PreparesTensors<B>) {
            table.init_tensor = [](ggml_backend_buffer_t buffer, ggml_tensor* tensor) {
                return attempt_status(in(buffer, "prepare", tensor),
                                      [&] { return self(buffer).prepare(*tensor); });
            };
        }
        if constexpr (CopiesTensors<B>) {
            table.cpy_tensor = [](ggml_backend_buffer_t buffer, const ggml_tensor* from,
                                  ggml_tensor* to) {
                return attempt_or(false, in(buffer, "copy", from),
                                  [&]() -> bool { return self(buffer).copy(*from, *to); });
            };
        }
        if constexpr (Resets<B>) {
            table.reset = [](ggml_backend_buffer_t buffer) {
                attempt_status(in(buffer, "reset"), [&] { return self(buffer).reset(); });
            };
        }
    }
};

/// A buffer object around `impl`, with `size` bytes; fails without memory, and then frees `impl`.
template <BufferImpl B>
Result<ggml_backend_buffer_t> make_buffer(ggml_backend_buffer_type_t type, std::unique_ptr<B> impl,
                                          std::size_t size) {
    if (impl == nullptr) return failure(Errc::out_of_memory, "no buffer of ", size, " bytes");
    const ggml_backend_buffer_t buffer =
        ggml_backend_buffer_init(type, BufferTable<B>::make(), impl.get(), size);
    if (buffer == nullptr) return failure(Errc::out_of_memory, "no memory for a buffer object");
    impl.release();  // free_buffer deletes it
    return buffer;
}

/// The B inside a buffer made by make_buffer<B>() in this plug-in; null for any other.
template <BufferImpl B>
B* buffer_cast(ggml_backend_buffer_t buffer) noexcept {
    if (buffer == nullptr || buffer->iface.free_buffer != &BufferTable<B>::free_buffer)
        return nullptr;
    return &BufferTable<B>::self(buffer);
}

/// Base of a buffer type: `class Memory : public heddle::plugin::BufferType<Memory>`. Public
/// members:
///
///     const char* name();
///     auto allocate(std::size_t size);   // unique_ptr of a buffer class, or
///     ggml_backend_buffer_t,
///                                        // or a Result of one of these
///     std::size_t alignment();                            // optional: 64
///     std::size_t max_size();                             // optional: no limit
///     std::size_t alloc_size(const ggml_tensor& tensor);  // optional: the tensor's bytes
///     bool is_host();                                     // optional: false
template <class Self>
class BufferType {
public:
    BufferType(const BufferType&) = delete;
    BufferType& operator=(const BufferType&) = delete;

    /// What the C functions take. Lives as long as this object.
    ggml_backend_buffer_type_t handle() noexcept { return &type_; }

protected:
    explicit BufferType(ggml_backend_dev_t device) noexcept
        : type_{table(), device, static_cast<Self*>(this)} {}
    ~BufferType() = default;

private:
    static Self& self(ggml_backend_buffer_type_t type) noexcept {
        return *static_cast<Self*>(type->context);
    }

    static ggml_backend_buffer_t allocate(ggml_backend_buffer_type_t type,
                                          std::size_t size) noexcept {
        const auto where = [&] { return text(self(type).name(), ": buffer of ", size, " bytes"); };
        return attempt_or<ggml_backend_buffer_t>(
            nullptr, where, [&]() -> Result<ggml_backend_buffer_t> {
                auto made = attempt([&] { return self(type).allocate(size); });
                if (!made) return std::move(made).error();
                if constexpr (std::is_same_v<std::remove_cvref_t<decltype(*made)>,
                                             ggml_backend_buffer_t>) {
                    return *made;
                } else {
                    return make_buffer(type, *std::move(made), size);
                }
            });
    }

    static ggml_backend_buffer_type_i table() noexcept {
        ggml_backend_buffer_type_i table = {};
        table.get_name = [](ggml_backend_buffer_type_t type) {
            return ask<const char*>("?", [&] { return self(type).name(); });
        };
        table.alloc_buffer = allocate;
        table.get_alignment = [](ggml_backend_buffer_type_t type) {
            return ask<std::size_t>(64, [&]() -> std::size_t {
                if constexpr (requires(Self & s) { s.alignment(); }) return self(type).alignment();
                return 64;
            });
        };
        if constexpr (requires(Self & s) { s.max_size(); }) {
            table.get_max_size = [](ggml_backend_buffer_type_t type) {
                return ask<std::size_t>(SIZE_MAX, [&] { return self(type).max_size(); });
            };
        }
        if constexpr (requires(Self & s, const ggml_tensor& tensor) { s.alloc_size(tensor); }) {
            table.get_alloc_size = [](ggml_backend_buffer_type_t type, const ggml_tensor* tensor) {
                return ask<std::size_t>(ggml_nbytes(tensor),
                                        [&] { return self(type).alloc_size(*tensor); });
            };
        }
        if constexpr (requires(Self & s) { s.is_host(); }) {
            table.is_host = [](ggml_backend_buffer_type_t type) {
                return ask<bool>(false, [&] { return self(type).is_host(); });
            };
        }
        return table;
    }

    ggml_backend_buffer_type type_;
};

}  // namespace heddle::plugin
