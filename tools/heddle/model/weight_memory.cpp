#include "model/weight_memory.hpp"

#include <cstdint>
#include <string_view>

#if defined(__unix__)
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace heddle::tool {
namespace {

/// Weights of layers with several rows are matrices, and so is the output. An embedding that gets
/// here is the output too.
bool is_matrix_of_products(const ggml_tensor& t) {
    const std::string_view name = t.name;
    return (name.starts_with("blk.") || name == "output.weight" || name == "token_embd.weight") &&
           t.ne[1] > 1 && t.ne[2] == 1;
}

/// Whether `device` multiplies a matrix like `t` in memory of `type`.
bool can_be_repacked(const ggml_tensor& t, const Device& device, ggml_backend_buffer_type_t type) {
    // One column at a time, these gain nothing by it on some processors.
    if (type == nullptr || t.type == GGML_TYPE_Q8_0 || t.type == GGML_TYPE_Q2_K) return false;
    auto context = Context::make_store(4);
    if (!context) return false;
    const Tensor weight = context->tensor(t.type, std::span(t.ne, 4), "weight");
    const Tensor columns = context->tensor(GGML_TYPE_F32, {t.ne[0], 512}, "columns");
    const Tensor product = matmul(weight, columns);
    if (!context->check()) return false;
    // Nothing is stored: a buffer of no size says where the weight would be.
    const Buffer nowhere(ggml_backend_buft_alloc_buffer(type, 0));
    if (nowhere.c() == nullptr) return false;
    weight.c()->buffer = nowhere.c();
    return ggml_backend_dev_supports_op(device.c(), product.c());
}

}  // namespace

ggml_backend_buffer_type_t repacking_type_of(const Device& device) {
    const auto get_types =
        device.function<ggml_backend_dev_get_extra_bufts_t>("ggml_backend_dev_get_extra_bufts");
    const ggml_backend_buffer_type_t* type = get_types != nullptr ? get_types(device.c()) : nullptr;
    // Those of the host keep weights as they are.
    while (type != nullptr && *type != nullptr && ggml_backend_buft_is_host(*type)) ++type;
    return type != nullptr ? *type : nullptr;
}

ggml_backend_buffer_type_t memory_for(const ggml_tensor& t, const Device& device, bool is_tied) {
    if (!is_tied && std::string_view(t.name) == "token_embd.weight") return nullptr;
    const ggml_backend_buffer_type_t own = repacking_type_of(device);
    const bool fits = is_matrix_of_products(t) && can_be_repacked(t, device, own);
    return fits ? own : device.buffer_type();
}

void release_mapped(std::byte* data, std::size_t size) {
#if defined(__unix__)
    const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    const std::uintptr_t first = (reinterpret_cast<std::uintptr_t>(data) + page - 1) / page * page;
    const std::uintptr_t last = reinterpret_cast<std::uintptr_t>(data + size) / page * page;
    if (first < last) {
        // Only advice: where it is not taken the bytes stay.
        (void)madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
    }
#else
    (void)data, (void)size;
#endif
}

}  // namespace heddle::tool
