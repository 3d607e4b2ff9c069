#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "heddle/backend.hpp"

/// A device that can do everything and has done it at once: what is left of the time of a run is
/// the host's.
namespace heddle::bench {

class NullBuffer {
public:
    explicit NullBuffer(std::size_t size) : bytes_(size + kAlignment) {}

    void* base() {
        const auto address = reinterpret_cast<std::uintptr_t>(bytes_.data());
        return bytes_.data() + (kAlignment - address % kAlignment) % kAlignment;
    }
    void write(std::size_t offset, std::span<const std::byte> bytes) {
        std::memcpy(at(offset), bytes.data(), bytes.size());
    }
    void read(std::size_t offset, std::span<std::byte> bytes) {
        std::memcpy(bytes.data(), at(offset), bytes.size());
    }
    void fill(std::size_t offset, std::size_t size, std::uint8_t value) {
        std::memset(at(offset), value, size);
    }

private:
    static constexpr std::size_t kAlignment = 64;
    std::byte* at(std::size_t offset) { return static_cast<std::byte*>(base()) + offset; }

    std::vector<std::byte> bytes_;
};

class NullMemory : public plugin::BufferType<NullMemory> {
public:
    explicit NullMemory(ggml_backend_dev_t device) : BufferType(device) {}

    const char* name() { return "Null"; }
    std::unique_ptr<NullBuffer> allocate(std::size_t size) {
        return std::make_unique<NullBuffer>(size);
    }
};

struct NullEvent {};

class NullStream {
public:
    static inline ggml_guid guid = {0x31, 0x0e, 0x9a, 0x57, 0x4c, 0xd8, 0x42, 0x1f,
                                    0x8b, 0x66, 0xe0, 0x2d, 0x15, 0x93, 0xbc, 0x7a};

    void compute(ggml_cgraph& /*graph*/) {}
    void synchronize() {}
    void write_async(ggml_tensor& tensor, std::size_t offset, std::span<const std::byte> bytes) {
        std::memcpy(static_cast<std::byte*>(tensor.data) + offset, bytes.data(), bytes.size());
    }
    void read_async(const ggml_tensor& tensor, std::size_t offset, std::span<std::byte> bytes) {
        std::memcpy(bytes.data(), static_cast<const std::byte*>(tensor.data) + offset,
                    bytes.size());
    }
    void record(NullEvent& /*event*/) {}
    void wait(NullEvent& /*event*/) {}
};

class NullDevice : public plugin::Device<NullDevice> {
public:
    explicit NullDevice(ggml_backend_reg_t registration)
        : Device(registration), memory_(handle()) {}

    const char* name() { return "NULL0"; }
    const char* description() { return "does nothing"; }
    plugin::DeviceType type() { return GGML_BACKEND_DEVICE_TYPE_GPU; }
    ggml_backend_buffer_type_t buffer_type() { return memory_.handle(); }
    std::string_view objection(const ggml_tensor& /*node*/) { return {}; }
    std::unique_ptr<NullStream> start(const char* /*params*/) {
        return std::make_unique<NullStream>();
    }
    std::unique_ptr<NullEvent> make_event() { return std::make_unique<NullEvent>(); }
    void wait(NullEvent& /*event*/) {}

private:
    NullMemory memory_;
};

class NullRegistration : public plugin::Registration<NullRegistration> {
public:
    const char* name() { return "Null"; }
    std::size_t device_count() { return 1; }
    ggml_backend_dev_t device(std::size_t /*index*/) { return device_.handle(); }

private:
    NullDevice device_{handle()};
};

}  // namespace heddle::bench
