// A plug-in for the tests of the loader. Definitions make bad ones of it.

#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>

#include "heddle/backend.hpp"
#include "heddle/backend/nodes.hpp"

namespace {

namespace plugin = heddle::plugin;

class Stream {
public:
    static inline ggml_guid guid = {1, 2, 3};
    void compute_node(ggml_tensor&) {}
};

#ifdef PLUGIN_CLAIMS_OPS
constexpr bool kClaimsOps = true;
#else
constexpr bool kClaimsOps = false;
#endif

class Device : public plugin::Device<Device> {
public:
    Device(ggml_backend_reg_t registration, int number)
        : plugin::Device<Device>(registration), name_(PLUGIN_NAME + std::to_string(number)) {}

    const char* name() { return name_.c_str(); }
    const char* description() { return "for tests"; }
    plugin::DeviceType type() { return GGML_BACKEND_DEVICE_TYPE_ACCEL; }
    ggml_backend_buffer_type_t buffer_type() { return ggml_backend_cpu_buffer_type(); }
    bool supports(const ggml_tensor&) { return kClaimsOps; }
    std::unique_ptr<Stream> start(const char*) { return std::make_unique<Stream>(); }

private:
    std::string name_;
};

/// A registration is never destroyed, and this one is unloaded again and again: it keeps nothing on
/// the heap.
class Registration : public plugin::Registration<Registration> {
public:
    Registration() {
        instance = this;
        make_devices(2);
#ifdef PLUGIN_API_VERSION
        handle()->api_version = PLUGIN_API_VERSION;
#endif
#ifdef PLUGIN_LACKS_GET_DEVICE_COUNT
        handle()->iface.get_device_count = nullptr;
#endif
#ifdef PLUGIN_TABLE_IS_EMPTY
        handle()->iface = {};
#endif
#ifdef PLUGIN_DEVICE_TABLES_ARE_EMPTY
        for (std::size_t i = begin_; i < end_; ++i) devices_[i]->handle()->iface = {};
#endif
#ifdef PLUGIN_NAME_THROWS
        handle()->iface.get_name = [](ggml_backend_reg_t) -> const char* { throw 1; };
#endif
#ifdef PLUGIN_COUNT_THROWS
        handle()->iface.get_device_count = [](ggml_backend_reg_t) -> std::size_t { throw 1; };
#endif
#ifdef PLUGIN_HAS_NO_NAME
        handle()->iface.get_name = [](ggml_backend_reg_t) -> const char* { return nullptr; };
#endif
#ifdef PLUGIN_LACKS_SUPPORTS_OP
        devices_[1]->handle()->iface.supports_op = nullptr;
#endif
#ifdef PLUGIN_CLAIMS_DEVICES
        handle()->iface.get_device_count = [](ggml_backend_reg_t) -> std::size_t {
            return PLUGIN_CLAIMS_DEVICES;
        };
#endif
#ifdef PLUGIN_CLAIMS_OPS
        // Says that it failed and not why, as many do.
        for (std::size_t i = begin_; i < end_; ++i) {
            devices_[i]->handle()->iface.init_backend = start_failing;
        }
#endif
    }

    const char* name() { return PLUGIN_NAME; }
    std::size_t device_count() { return end_ - begin_; }
    ggml_backend_dev_t device(std::size_t index) { return devices_[begin_ + index]->handle(); }

#ifdef PLUGIN_CAN_BE_CONFIGURED
    void* find(std::string_view name) {
        return name == "heddle_backend_configure" ? reinterpret_cast<void*>(&configure) : nullptr;
    }
#endif

    /// Takes the number of devices.
    static bool configure(const char* params) {
        int count = 1;
        if (*params != '\0' &&
            std::from_chars(params, params + std::strlen(params), count).ec != std::errc{}) {
            plugin::report(heddle::invalid("'", params, "' is not a number"));
            return false;
        }
        instance->make_devices(count);
        return true;
    }

private:
#ifdef PLUGIN_CLAIMS_OPS
    static ggml_backend_t start_failing(ggml_backend_dev_t device, const char*) {
        static ggml_guid guid = {9};
        ggml_backend_i table = {};
        table.get_name = [](ggml_backend_t stream) {
            return stream->device->iface.get_name(stream->device);
        };
        table.free = [](ggml_backend_t stream) { delete stream; };
        table.graph_compute = [](ggml_backend_t, ggml_cgraph*) { return GGML_STATUS_FAILED; };
        return new ggml_backend{&guid, table, device, nullptr};
    }
#endif

    /// New devices; old ones stay where they are, for those who still look at them.
    void make_devices(int count) {
        begin_ = end_;
        for (int i = 0; i < count; ++i) devices_.at(end_++).emplace(handle(), i);
    }

    static inline Registration* instance = nullptr;
    std::array<std::optional<Device>, 32> devices_;
    std::size_t begin_ = 0, end_ = 0;
};

[[maybe_unused]] ggml_backend_reg_t init() {
#if defined(PLUGIN_GIVES_NULL)
    return nullptr;
#elif defined(PLUGIN_THROWS)
    throw std::runtime_error("no driver");
#elif defined(PLUGIN_GIVES_NONSENSE)
    return reinterpret_cast<ggml_backend_reg_t>(0x10);
#elif defined(PLUGIN_ABORTS)
    std::fputs("the driver is\nof another age\n", stderr);
    std::abort();
#elif defined(PLUGIN_HANGS)
    for (;;) pause();
#elif defined(PLUGIN_EXITS)
    std::exit(0);
#else
    return plugin::registration<Registration>();
#endif
}

}  // namespace

extern "C" {
#ifndef PLUGIN_WITHOUT_INIT
ggml_backend_reg_t ggml_backend_init() { return init(); }
#endif
#ifdef PLUGIN_SCORE
int ggml_backend_score() { return PLUGIN_SCORE; }
#endif
}
