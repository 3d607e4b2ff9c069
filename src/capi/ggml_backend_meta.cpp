// Several devices as one.

#include <cstdlib>

#include "capi/ggml_backend_boundary.hpp"
#include "runtime/meta/buffer.hpp"
#include "runtime/meta/context_allocation.hpp"
#include "runtime/meta/device.hpp"
#include "runtime/meta/stream.hpp"

using namespace heddle;
using capi::require;

namespace {

bool wants_talk() {
    const char* const level = std::getenv("GGML_META_DEBUG");
    return level != nullptr && std::atoi(level) > 0;
}

Result<const meta::StreamGroup*> group_of(ggml_backend_t stream, std::string_view function) {
    HEDDLE_TRY(require(stream, function, "the backend"));
    if (const meta::JoinedStream* const joined = meta::joined(stream)) return &joined->group();
    return invalid(function, ": the backend is none over several devices");
}

}  // namespace

const char* ggml_backend_meta_split_axis_name(ggml_backend_meta_split_axis split_axis) {
    return capi::value_or_fail(
        [&]() -> Result<const char*> {
            if (const char* const name = meta::axis_name(split_axis)) return name;
            return invalid("name of a split axis: ", static_cast<int>(split_axis), " is none");
        },
        static_cast<const char*>("UNKNOWN"));
}

ggml_backend_dev_t ggml_backend_meta_device(ggml_backend_dev_t* devs, size_t n_devs,
                                            ggml_backend_meta_get_split_state_t get_split_state,
                                            void* get_split_state_ud) {
    return capi::made_or_null([&]() -> Result<Device*> {
        HEDDLE_TRY(require(devs, "joined device", "the list of devices"));
        if (n_devs > meta::kMaxDevices) {
            return invalid("joined device: ", n_devs, " devices, where 1 to ", meta::kMaxDevices,
                           " can be joined");
        }
        return meta::join({{devs, devs + n_devs}, get_split_state, get_split_state_ud},
                          wants_talk());
    });
}

bool ggml_backend_is_meta(ggml_backend_t backend) { return meta::joined(backend) != nullptr; }

bool ggml_backend_buffer_is_meta(ggml_backend_buffer_t buf) { return meta::joined(buf) != nullptr; }

bool ggml_backend_buft_is_meta(ggml_backend_buffer_type_t buft) {
    return meta::joined(buft) != nullptr;
}

size_t ggml_backend_meta_n_backends(ggml_backend_t meta_backend) {
    return capi::made([&]() -> Result<std::size_t> {
        HEDDLE_TRY_ASSIGN(const meta::StreamGroup* const group,
                          group_of(meta_backend, "number of joined backends"));
        return group->size();
    });
}

ggml_backend_t ggml_backend_meta_simple_backend(ggml_backend_t meta_backend, size_t index) {
    return capi::made([&]() -> Result<Stream*> {
        HEDDLE_TRY_ASSIGN(const meta::StreamGroup* const group,
                          group_of(meta_backend, "joined backend"));
        if (index < group->size()) return group->streams()[index];
        return invalid("joined backend: number ", index, " of ", group->size());
    });
}

ggml_backend_buffer* ggml_backend_meta_alloc_ctx_tensors_from_buft(
    ggml_context* ctx, ggml_backend_buffer_type_t buft) {
    return capi::made_or_null([&]() -> Result<OwnedBuffer> {
        HEDDLE_TRY(require(ctx, "context allocation", "the context"));
        HEDDLE_TRY(require(buft, "context allocation", "the buffer type"));
        if (meta::JoinedDevice* const device = meta::joined(buft)) {
            return meta::allocate_context(*ctx, *device);
        }
        return invalid("context allocation: buffer type '", name_of(*buft),
                       "' is none over several devices");
    });
}
