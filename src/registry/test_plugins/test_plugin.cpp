// A plug-in for the tests of the loader. Definitions make bad ones of it.

#include <charconv>
#include <cstring>
#include <deque>
#include <stdexcept>
#include <string>

#include "heddle/backend.hpp"

namespace {

namespace plugin = heddle::plugin;

class Stream {
public:
    static inline ggml_guid guid = {1, 2, 3};
    void compute_node(ggml_tensor&) {}
};

class Device : public plugin::Device<Device> {
public:
    Device(ggml_backend_reg_t registration, int number)
        : plugin::Device<Device>(registration), name_(PLUGIN_NAME + std::to_string(number)) {}

    const char* name() { return name_.c_str(); }
    const char* description() { return "for tests"; }
    plugin::DeviceType type() { return GGML_BACKEND_DEVICE_TYPE_ACCEL; }
    ggml_backend_buffer_type_t buffer_type() { return ggml_backend_cpu_buffer_type(); }
    bool supports(const ggml_tensor&) { return false; }
    std::unique_ptr<Stream> start(const char*) { return std::make_unique<Stream>(); }

private:
    std::string name_;
};

class Registration : public plugin::Registration<Registration> {
public:
    const char* name() { return PLUGIN_NAME; }
    std::size_t device_count() { return devices_.size() - first_; }
    ggml_backend_dev_t device(std::size_t index) { return devices_[first_ + index].handle(); }

#ifdef PLUGIN_CAN_BE_CONFIGURED
    void* find(std::string_view name) {
        return name == "heddle_backend_configure" ? reinterpret_cast<void*>(&configure) : nullptr;
    }

    /// Takes the number of devices.
    static bool configure(const char* params) {
        int count = 1;
        if (*params != '\0' &&
            std::from_chars(params, params + std::strlen(params), count).ec != std::errc{}) {
            plugin::report(heddle::invalid("'", params, "' is not a number"));
            return false;
        }
        instance->first_ = instance->devices_.size();  // old ones stay where they are
        for (int i = 0; i < count; ++i) instance->devices_.emplace_back(instance->handle(), i);
        return true;
    }

    Registration() { instance = this; }

private:
    static inline Registration* instance = nullptr;
    std::size_t first_ = 0;
    std::deque<Device> devices_;
#else
    Registration() {
        for (int i = 0; i < 2; ++i) devices_.emplace_back(handle(), i);
#ifdef PLUGIN_API_VERSION
        handle()->api_version = PLUGIN_API_VERSION;
#endif
    }

private:
    std::size_t first_ = 0;
    std::deque<Device> devices_;
#endif
};

[[maybe_unused]] ggml_backend_reg_t init() {
#if defined(PLUGIN_GIVES_NULL)
    return nullptr;
#elif defined(PLUGIN_THROWS)
    throw std::runtime_error("no driver");
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
