#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "core/error.hpp"
#include "core/tensor.hpp"

/// In front of everything a context holds. Objects follow each other and know their successor.
struct ggml_object {
    std::size_t offset;  ///< of the payload, from the start of the arena
    std::size_t size;    ///< of the payload, rounded up to the arena's alignment
    ggml_object* next;
    ggml_object_type kind;
    char padding[4];
};
static_assert(sizeof(ggml_object) == 32);

/// An arena for tensors and graphs. Objects are appended, never freed alone, and own nothing: they
/// stay valid as long as the memory does, even after the context itself is gone.
struct ggml_context {
    std::byte* memory;
    std::size_t size;
    bool owns_memory;
    bool no_alloc;  ///< new tensors get no data
    ggml_object* first;
    ggml_object* last;
};

namespace heddle {

using Context = ::ggml_context;
using Object = ::ggml_object;

inline constexpr std::size_t kArenaAlignment = GGML_MEM_ALIGN;
inline constexpr std::size_t kTensorOverhead = sizeof(Object) + sizeof(Tensor);
static_assert(sizeof(Tensor) % kArenaAlignment == 0);

void destroy_context(Context* context) noexcept;  ///< null is allowed

struct DestroyContext {
    void operator()(Context* context) const noexcept { destroy_context(context); }
};
using OwnedContext = std::unique_ptr<Context, DestroyContext>;

/// An arena of `size` bytes in `memory`, or in memory of its own where that is null.
Result<OwnedContext> make_context(std::size_t size, void* memory, bool no_alloc);

void reset(Context& context);  ///< forgets all objects, keeps the memory
std::size_t used_bytes(const Context& context);

/// Room for an object of `size` bytes, uninitialised.
Result<std::byte*> new_object(Context& context, ggml_object_type kind, std::size_t size);

/// A tensor of its own, densely packed, with data unless the context has `no_alloc`.
Result<Tensor*> new_tensor(Context& context, Type type, std::span<const std::int64_t> extents);

/// A tensor that looks like `spec`, with memory of its own. `spec` has been checked.
Result<Tensor*> new_tensor(Context& context, const TensorSpec& spec);

/// A tensor that looks like `spec` and lives in the memory of `base`, `offset` bytes in.
/// It must end before the root of `base` does, also if it were densely packed.
Result<Tensor*> new_view(Context& context, const TensorSpec& spec, Tensor& base,
                         std::size_t offset);

/// All of `tensor` again, named "<name> (view)".
Result<Tensor*> view_tensor(Context& context, Tensor& tensor);

/// Tensors in the order of creation; null at the end.
Tensor* first_tensor(const Context& context);
Tensor* next_tensor(const Tensor& tensor);

/// The first tensor of that name, or null.
Tensor* find_tensor(const Context& context, std::string_view name);

/// Memory at an address that is a multiple of 64, or null.
void* aligned_allocate(std::size_t size) noexcept;
void aligned_free(void* memory) noexcept;

}  // namespace heddle
