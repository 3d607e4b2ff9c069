#include "core/context.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#if __has_include(<sys/mman.h>)
#include <sys/mman.h>
#endif

namespace heddle {
namespace {

constexpr std::size_t kHostAlignment = 64;  // a cache line, and the widest vector
constexpr std::size_t kHugePage = std::size_t{2} << 20;

constexpr std::size_t round_up(std::size_t n, std::size_t unit) {
    return (n + unit - 1) / unit * unit;
}

Object* header_of(const Tensor& tensor) {
    auto* payload = reinterpret_cast<std::byte*>(const_cast<Tensor*>(&tensor));
    return reinterpret_cast<Object*>(payload - sizeof(Object));
}

Tensor* payload_of(Object* object) {
    return reinterpret_cast<Tensor*>(reinterpret_cast<std::byte*>(object) + sizeof(Object));
}

/// `object` itself or the first after it that is a tensor.
Tensor* tensor_from(Object* object) {
    while (object != nullptr && object->kind != GGML_OBJECT_TYPE_TENSOR) object = object->next;
    return object == nullptr ? nullptr : payload_of(object);
}

Result<Tensor*> place_tensor(Context& context, const TensorSpec& spec, std::size_t data_size) {
    auto memory = new_object(context, GGML_OBJECT_TYPE_TENSOR, sizeof(Tensor) + data_size);
    if (!memory) return std::move(memory).error();
    auto* tensor = new (*memory) Tensor{};
    tensor->type = spec.type;
    std::memcpy(tensor->ne, spec.extent.data(), sizeof tensor->ne);
    std::memcpy(tensor->nb, spec.stride.data(), sizeof tensor->nb);
    return tensor;
}

}  // namespace

void* aligned_allocate(std::size_t size) noexcept {
    const bool is_large = size >= 2 * kHugePage;
    const std::size_t unit = is_large ? kHugePage : kHostAlignment;
    if (size > SIZE_MAX - unit) return nullptr;
    void* memory = std::aligned_alloc(unit, round_up(size == 0 ? 1 : size, unit));
#ifdef MADV_HUGEPAGE
    // A large arena is filled from front to back: one fault for 2 MiB instead of 512. Advice only.
    if (is_large && memory != nullptr) madvise(memory, round_up(size, unit), MADV_HUGEPAGE);
#endif
    return memory;
}

void aligned_free(void* memory) noexcept { std::free(memory); }

Result<OwnedContext> make_context(std::size_t size, void* memory, bool no_alloc) {
    if (size == 0) size = kArenaAlignment;
    const bool owns_memory = memory == nullptr;
    if (owns_memory) {
        if (size > SIZE_MAX - kArenaAlignment) {
            return failure(Errc::out_of_memory, "context: ", size, " bytes cannot be allocated");
        }
        size = round_up(size, kArenaAlignment);
        memory = aligned_allocate(size);
        if (memory == nullptr) {
            return failure(Errc::out_of_memory, "context: no memory for ", size, " bytes");
        }
    } else if (reinterpret_cast<std::uintptr_t>(memory) % kArenaAlignment != 0) {
        return invalid("context: the caller's memory at ", memory, " is not aligned to ",
                       kArenaAlignment, " bytes");
    }
    OwnedContext context(new (std::nothrow) Context{static_cast<std::byte*>(memory), size,
                                                    owns_memory, no_alloc, nullptr, nullptr});
    if (context == nullptr) {
        if (owns_memory) aligned_free(memory);
        return failure(Errc::out_of_memory, "context: no memory for its handle");
    }
    return context;
}

void destroy_context(Context* context) noexcept {
    if (context == nullptr) return;
    if (context->owns_memory) aligned_free(context->memory);
    delete context;
}

void reset(Context& context) { context.first = context.last = nullptr; }

std::size_t used_bytes(const Context& context) {
    return context.last == nullptr ? 0 : context.last->offset + context.last->size;
}

Result<std::byte*> new_object(Context& context, ggml_object_type kind, std::size_t size) {
    const std::size_t used = used_bytes(context);
    const std::size_t available = context.size - used;
    // `size` may be anything a caller computed: it is compared before it is rounded.
    if (size > available || round_up(size, kArenaAlignment) + sizeof(Object) > available) {
        return failure(Errc::out_of_memory, "context: not enough space in the memory pool (needed ",
                       size, " bytes and ", sizeof(Object), " for its header, available ",
                       available, " of ", context.size, ")");
    }
    auto* object = reinterpret_cast<Object*>(context.memory + used);
    *object = {used + sizeof(Object), round_up(size, kArenaAlignment), nullptr, kind, {}};
    (context.last == nullptr ? context.first : context.last->next) = object;
    context.last = object;
    return context.memory + object->offset;
}

Result<Tensor*> new_tensor(Context& context, Type type, std::span<const std::int64_t> extents) {
    if (extents.empty() || extents.size() > kMaxDims) {
        return invalid("new tensor: ", extents.size(), " dimensions, not 1 to ", kMaxDims);
    }
    Extents extent{1, 1, 1, 1};
    std::copy(extents.begin(), extents.end(), extent.begin());
    if (auto checked = check_extents(type, extent); !checked) {
        return std::move(checked).error().within("new tensor");
    }
    return new_tensor(context, TensorSpec::dense(type, extent));
}

Result<Tensor*> new_tensor(Context& context, const TensorSpec& spec) {
    const std::size_t data_size = context.no_alloc ? 0 : byte_size(spec);
    auto tensor = place_tensor(context, spec, data_size);
    if (tensor && data_size > 0) (*tensor)->data = *tensor + 1;  // right behind the struct
    return tensor;
}

Result<Tensor*> new_view(Context& context, const TensorSpec& spec, Tensor& base,
                         std::size_t offset) {
    // Views of views share the root, so that one hop finds the memory.
    Tensor& root = base.view_src != nullptr ? *base.view_src : base;
    const std::size_t limit = byte_size(root);
    std::size_t start = 0;
    if (__builtin_add_overflow(offset, base.view_src != nullptr ? base.view_offs : 0, &start)) {
        return invalid("a view at offset ", offset, " of ", describe(base), ", which is at ",
                       base.view_offs, " of ", describe(root));
    }
    // Strides may lead further than packed elements, or less far.
    const std::size_t size =
        std::max(byte_size(spec), byte_size(TensorSpec::dense(spec.type, spec.extent)));
    if (size > 0 && (start > limit || size > limit - start)) {
        return invalid("a view of ", size, " bytes at offset ", start, " reaches past the ", limit,
                       " bytes of ", describe(root));
    }
    HEDDLE_TRY_ASSIGN(Tensor * view, place_tensor(context, spec, 0));
    view->view_src = &root;
    view->view_offs = start;
    if (root.data != nullptr) view->data = static_cast<std::byte*>(root.data) + start;
    return view;
}

Result<Tensor*> view_tensor(Context& context, Tensor& tensor) {
    HEDDLE_TRY_ASSIGN(Tensor * view, new_view(context, TensorSpec::view(tensor, 0), tensor, 0));
    name_after(*view, tensor, " (view)");
    return view;
}

Tensor* first_tensor(const Context& context) { return tensor_from(context.first); }
Tensor* next_tensor(const Tensor& tensor) { return tensor_from(header_of(tensor)->next); }

Tensor* find_tensor(const Context& context, std::string_view name) {
    for (Tensor* tensor = first_tensor(context); tensor; tensor = next_tensor(*tensor)) {
        if (name_of(*tensor) == name) return tensor;
    }
    return nullptr;
}

}  // namespace heddle
