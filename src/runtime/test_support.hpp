#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "ggml/op_list.h"
#include "runtime/buffer.hpp"
#include "runtime/stream.hpp"

/// For tests: a device with memory that the host cannot address, made of nothing but tables. Tests
/// take members out of the tables, let others fail, and look at what was called.
namespace heddle::test {

class FakeDevice {
public:
    FakeDevice() {
        device.iface = device_table();
        device.context = this;
        type.iface = type_table();
        type.device = &device;
        type.context = this;
        buffer_table = full_buffer_table();
        stream_table = full_stream_table();
    }
    FakeDevice(const FakeDevice&) = delete;
    FakeDevice& operator=(const FakeDevice&) = delete;

    Device device{};
    BufferType type{};
    BufferTable buffer_table{};     ///< of buffers made from now on
    ggml_backend_i stream_table{};  ///< of streams made from now on

    std::string name = "FAKE0";
    std::size_t alignment = 64, max_size = SIZE_MAX, padding = 0;
    int allocations_left = 1 << 30;
    Status init_status = GGML_STATUS_SUCCESS, compute_status = GGML_STATUS_SUCCESS;
    bool copies = true;  ///< whether cpy_tensor and cpy_tensor_async say yes
    float bias = 0;      ///< added to everything that is computed
    int live_buffers = 0, live_streams = 0;
    std::vector<std::string> calls;  ///< in order, by name of the member

    OwnedBuffer allocate(std::size_t size) { return *heddle::allocate(type, size); }

    OwnedStream start() { return OwnedStream(device.iface.init_backend(&device, nullptr)); }

    std::size_t count(std::string_view call) const {
        return static_cast<std::size_t>(std::count(calls.begin(), calls.end(), call));
    }

    /// Where the bytes of a tensor on any such device really are.
    static std::byte* bytes(const Tensor& tensor) {
        return memory_of(root_buffer(tensor)).at(tensor.data);
    }

private:
    struct Memory {
        FakeDevice* owner;
        std::uintptr_t base;
        std::vector<std::byte> bytes;

        std::byte* at(const void* address) {
            return bytes.data() + (reinterpret_cast<std::uintptr_t>(address) - base);
        }
    };

    static FakeDevice& of(BufferType* t) { return *static_cast<FakeDevice*>(t->context); }
    static FakeDevice& of(Device* d) { return *static_cast<FakeDevice*>(d->context); }
    static FakeDevice& of(Stream* s) { return *static_cast<FakeDevice*>(s->context); }
    static Memory& memory_of(Buffer* b) { return *static_cast<Memory*>(b->context); }
    static FakeDevice& of(Buffer* b) { return *memory_of(b).owner; }
    static bool is_fake(const Tensor* tensor) {
        const Buffer* buffer = root_buffer(*tensor);
        return buffer != nullptr && buffer->buft->iface.alloc_buffer == type_table().alloc_buffer;
    }

    template <class Object>
    static FakeDevice& noted(Object* object, const char* call) {
        of(object).calls.emplace_back(call);
        return of(object);
    }

    static ggml_backend_buffer_type_i type_table() {
        return {
            .get_name = [](BufferType* t) { return of(t).name.c_str(); },
            .alloc_buffer = allocate_fake,
            .get_alignment = [](BufferType* t) { return of(t).alignment; },
            .get_max_size = [](BufferType* t) { return of(t).max_size; },
            .get_alloc_size = [](BufferType* t,
                                 const Tensor* x) { return byte_size(*x) + of(t).padding; },
            .is_host = nullptr,
        };
    }

    static Buffer* allocate_fake(BufferType* t, std::size_t size) {
        FakeDevice& self = noted(t, "alloc_buffer");
        if (self.allocations_left-- <= 0) return nullptr;
        ++self.live_buffers;
        // Far below any address of ours: reading through it would crash.
        auto* memory = new Memory{&self, self.next_base_, std::vector<std::byte>(size)};
        self.next_base_ += (size / 4096 + 2) * 4096;
        return make_buffer(*t, self.buffer_table, memory, size)->release();
    }

    static BufferTable full_buffer_table() {
        return {
            .free_buffer =
                [](Buffer* b) {
                    --of(b).live_buffers;
                    delete &memory_of(b);
                },
            .get_base = [](Buffer* b) { return reinterpret_cast<void*>(memory_of(b).base); },
            .init_tensor = [](Buffer* b, Tensor*) { return noted(b, "init_tensor").init_status; },
            .memset_tensor =
                [](Buffer* b, Tensor* x, std::uint8_t value, std::size_t offset, std::size_t size) {
                    noted(b, "memset_tensor");
                    std::memset(bytes(*x) + offset, value, size);
                },
            .set_tensor =
                [](Buffer* b, Tensor* x, const void* data, std::size_t offset, std::size_t size) {
                    noted(b, "set_tensor");
                    std::memcpy(bytes(*x) + offset, data, size);
                },
            .get_tensor =
                [](Buffer* b, const Tensor* x, void* data, std::size_t offset, std::size_t size) {
                    noted(b, "get_tensor");
                    std::memcpy(data, bytes(*x) + offset, size);
                },
            .set_tensor_2d =
                [](Buffer* b, Tensor* x, const void* data, std::size_t offset, std::size_t size,
                   std::size_t n, std::size_t to, std::size_t from) {
                    noted(b, "set_tensor_2d");
                    for (std::size_t i = 0; i < n; ++i) {
                        std::memcpy(bytes(*x) + offset + i * to,
                                    static_cast<const std::byte*>(data) + i * from, size);
                    }
                },
            .get_tensor_2d =
                [](Buffer* b, const Tensor* x, void* data, std::size_t offset, std::size_t size,
                   std::size_t n, std::size_t from, std::size_t to) {
                    noted(b, "get_tensor_2d");
                    for (std::size_t i = 0; i < n; ++i) {
                        std::memcpy(static_cast<std::byte*>(data) + i * to,
                                    bytes(*x) + offset + i * from, size);
                    }
                },
            .cpy_tensor =
                [](Buffer* b, const Tensor* from, Tensor* to) {
                    if (!noted(b, "cpy_tensor").copies || !is_fake(from)) return false;
                    std::memcpy(bytes(*to), bytes(*from), byte_size(*from));
                    return true;
                },
            .clear =
                [](Buffer* b, std::uint8_t value) {
                    noted(b, "clear");
                    auto& memory = memory_of(b).bytes;
                    std::fill(memory.begin(), memory.end(), std::byte{value});
                },
            .reset = [](Buffer* b) { noted(b, "reset"); },
        };
    }

    static ggml_backend_i full_stream_table() {
        ggml_backend_i table{};
        table.get_name = [](Stream* s) { return of(s).name.c_str(); };
        table.free = [](Stream* s) {
            --of(s).live_streams;
            delete s;
        };
        table.set_tensor_async = [](Stream* s, Tensor* x, const void* data, std::size_t offset,
                                    std::size_t size) {
            noted(s, "set_tensor_async");
            std::memcpy(bytes(*x) + offset, data, size);
        };
        table.get_tensor_async = [](Stream* s, const Tensor* x, void* data, std::size_t offset,
                                    std::size_t size) {
            noted(s, "get_tensor_async");
            std::memcpy(data, bytes(*x) + offset, size);
        };
        table.cpy_tensor_async = [](Stream*, Stream* s, const Tensor* from, Tensor* to) {
            if (!noted(s, "cpy_tensor_async").copies || !is_fake(from)) return false;
            std::memcpy(bytes(*to), bytes(*from), byte_size(*from));
            return true;
        };
        table.synchronize = [](Stream* s) { noted(s, "synchronize"); };
        table.graph_compute = [](Stream* s, Graph* graph) { return of(s).run(*graph); };
        table.event_record = [](Stream* s, Event*) { noted(s, "event_record"); };
        table.event_wait = [](Stream* s, Event*) { noted(s, "event_wait"); };
        return table;
    }

    static ggml_backend_device_i device_table() {
        ggml_backend_device_i table{};
        table.get_name = [](Device* d) { return of(d).name.c_str(); };
        table.get_description = [](Device*) { return "a device for tests"; };
        table.get_memory = [](Device*, std::size_t* free, std::size_t* total) {
            *free = 1000;
            *total = 4000;
        };
        table.get_type = [](Device*) { return GGML_BACKEND_DEVICE_TYPE_GPU; };
        table.get_props = [](Device* d, ggml_backend_dev_props* props) {
            props->name = of(d).name.c_str();
            props->caps.async = true;
        };
        table.init_backend = [](Device* d, const char*) {
            ++of(d).live_streams;
            return new Stream{
                .guid = nullptr, .iface = of(d).stream_table, .device = d, .context = &of(d)};
        };
        table.get_buffer_type = [](Device* d) { return &of(d).type; };
        table.supports_op = [](Device*, const Tensor* op) { return op->op == GGML_OP_ADD; };
        table.supports_buft = [](Device* d, BufferType* t) { return t == &of(d).type; };
        table.event_new = [](Device* d) { return new Event{.device = d, .context = nullptr}; };
        table.event_free = [](Device*, Event* event) { delete event; };
        table.event_synchronize = [](Device* d, Event*) { noted(d, "event_synchronize"); };
        return table;
    }

    /// Knows one op: the sum of two dense tensors of floats.
    Status run(const Graph& graph) {
        calls.emplace_back("graph_compute");
        for (const Tensor* node : nodes_of(graph)) {
            if (compute_status != GGML_STATUS_SUCCESS) return compute_status;
            if (node->op != GGML_OP_ADD) continue;
            auto* sum = reinterpret_cast<float*>(bytes(*node));
            const auto* a = reinterpret_cast<const float*>(bytes(*node->src[0]));
            const auto* b = reinterpret_cast<const float*>(bytes(*node->src[1]));
            for (std::int64_t i = 0; i < element_count(*node); ++i) sum[i] = a[i] + b[i] + bias;
        }
        return GGML_STATUS_SUCCESS;
    }

    std::uintptr_t next_base_ = 0x10000;
};

/// A context for tensors without data.
inline OwnedContext make_test_context(bool no_alloc = true) {
    return *make_context(1 << 20, nullptr, no_alloc);
}

inline Tensor* new_floats(const OwnedContext& context, std::int64_t n, std::string_view name) {
    Tensor* tensor = *new_tensor(*context, GGML_TYPE_F32, {{n}});
    set_name(*tensor, name);
    return tensor;
}

}  // namespace heddle::test
