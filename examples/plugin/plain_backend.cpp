// The smallest real backend: one device with memory of its own that adds and multiplies F32
// tensors.
//
// Read it from bottom to top: the registration offers a device, the device starts streams and has a
// buffer type, the buffer type makes buffers. docs/add-a-backend.md walks through it.

#include <cstring>
#include <memory>
#include <vector>

#include "heddle/backend.hpp"

namespace {

using heddle::Errc;
using heddle::Result;
namespace plugin = heddle::plugin;

/// Memory: offsets count from its beginning, and are checked before they get here.
class PlainBuffer {
public:
    explicit PlainBuffer(std::size_t size) : lines_((size + sizeof(Line) - 1) / sizeof(Line)) {}

    void* base() { return lines_.data(); }
    void write(std::size_t offset, std::span<const std::byte> bytes) {
        std::memcpy(bytes_at(offset), bytes.data(), bytes.size());
    }
    void read(std::size_t offset, std::span<std::byte> bytes) {
        std::memcpy(bytes.data(), bytes_at(offset), bytes.size());
    }
    void fill(std::size_t offset, std::size_t size, std::uint8_t value) {
        std::memset(bytes_at(offset), value, size);
    }

private:
    struct alignas(64) Line {
        std::byte bytes[64];
    };
    std::byte* bytes_at(std::size_t offset) {
        return reinterpret_cast<std::byte*>(lines_.data()) + offset;
    }

    std::vector<Line> lines_;
};
static_assert(plugin::Reads<PlainBuffer> && plugin::Fills<PlainBuffer>);

class PlainMemory : public plugin::BufferType<PlainMemory> {
public:
    explicit PlainMemory(ggml_backend_dev_t device) : BufferType(device) {}

    const char* name() { return "Plain"; }
    std::unique_ptr<PlainBuffer> allocate(std::size_t size) {
        return std::make_unique<PlainBuffer>(size);  // what it throws is reported and becomes NULL
    }
    bool is_host() { return true; }
};

/// "Can you?" stands next to "do it": compute_node() relies on what objection() has let through.
std::string_view objection(const ggml_tensor& node) {
    // Programs may have changed it since it was built: from here on it has two operands that fit.
    if (const auto fault = plugin::node_fault(node); !fault.empty()) return fault;
    if (node.op != GGML_OP_ADD && node.op != GGML_OP_MUL) return "only ADD and MUL run here";
    const ggml_tensor* const tensors[] = {&node, node.src[0], node.src[1]};
    for (const ggml_tensor* tensor : tensors) {
        if (tensor->type != GGML_TYPE_F32) return "only F32 runs here";
        if (!ggml_is_contiguous(tensor)) return "tensors must be contiguous";
    }
    if (!ggml_are_same_shape(node.src[0], node.src[1]))
        return "operands must have the same extents";
    return {};
}

class PlainStream {
public:
    static inline ggml_guid guid = {0x5f, 0x1b, 0x90, 0x3c, 0xd2, 0x77, 0x4e, 0x08,
                                    0xa1, 0x6d, 0x2e, 0xb4, 0x93, 0x0f, 0xc8, 0x55};

    Result<> compute_node(ggml_tensor& node) {
        if (const auto reason = objection(node); !reason.empty()) {
            return heddle::failure(Errc::unsupported, reason);
        }
        const auto* a = static_cast<const float*>(node.src[0]->data);
        const auto* b = static_cast<const float*>(node.src[1]->data);
        auto* y = static_cast<float*>(node.data);
        const std::int64_t count = ggml_nelements(&node);
        if (node.op == GGML_OP_ADD) {
            for (std::int64_t i = 0; i < count; ++i) y[i] = a[i] + b[i];
        } else {
            for (std::int64_t i = 0; i < count; ++i) y[i] = a[i] * b[i];
        }
        return heddle::ok();
    }
};

class PlainDevice : public plugin::Device<PlainDevice> {
public:
    explicit PlainDevice(ggml_backend_reg_t registration)
        : Device(registration), memory_(handle()) {}

    const char* name() { return "PLAIN0"; }
    const char* description() { return "adds and multiplies"; }
    plugin::DeviceType type() { return GGML_BACKEND_DEVICE_TYPE_ACCEL; }
    ggml_backend_buffer_type_t buffer_type() { return memory_.handle(); }
    bool accepts(ggml_backend_buffer_type_t type) { return ggml_backend_buft_is_host(type); }
    std::string_view objection(const ggml_tensor& node) { return ::objection(node); }
    std::unique_ptr<PlainStream> start(const char*) { return std::make_unique<PlainStream>(); }

private:
    PlainMemory memory_;
};

class PlainRegistration : public plugin::Registration<PlainRegistration> {
public:
    const char* name() { return "Plain"; }
    std::size_t device_count() { return 1; }
    ggml_backend_dev_t device(std::size_t) { return device_.handle(); }

private:
    PlainDevice device_{handle()};
};

}  // namespace

GGML_BACKEND_DL_IMPL(heddle::plugin::registration<PlainRegistration>)
