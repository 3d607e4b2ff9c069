/// Devices and registrations: from ordinary classes to the tables of the plug-in interface.
#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <string_view>

#include "objection.h"
#include "stream.hpp"

extern "C" {
/// Weak, because a plug-in may also be loaded by another library with the same tables.
[[gnu::weak]] GGML_API const char* heddle_node_fault(const ggml_tensor* node);
}

namespace heddle::plugin {

/// What is wrong with `node` as it is now; empty if its op could have built it, or if the library
/// that loaded the plug-in cannot tell. Valid until the thread asks again.
///
/// A node that was changed after it was built may lack operands, or have extents that its operands
/// do not. Ask this first in `objection`, and in `compute` of graphs that are new.
inline std::string_view node_fault(const ggml_tensor& node) noexcept {
    return &heddle_node_fault != nullptr ? heddle_node_fault(&node) : std::string_view();
}

/// The words of the last objection, for the thread that asked for them. No string, and hidden:
/// memory that is released with the thread, or shared among plug-ins, would keep the plug-in from
/// being unloaded.
struct ObjectionWords {
    bool wanted = false;
    char text[256] = {};

    void keep(std::string_view words) noexcept {
        const std::size_t size = words.copy(text, sizeof text - 1);
        text[size] = '\0';
    }
};
[[gnu::visibility("hidden")]] inline constinit thread_local ObjectionWords objection_words;

/// What registrations offer as HEDDLE_DEVICE_OBJECTION: asks the device, which leaves its words.
[[gnu::visibility("hidden")]] inline const char* objection_of(ggml_backend_dev_t device,
                                                              const ggml_tensor* node) noexcept {
    ObjectionWords& words = objection_words;
    words.keep("does not support it");
    words.wanted = true;
    const bool supported = device->iface.supports_op(device, node);
    words.wanted = false;
    return supported ? "" : words.text;
}

/// Kinds of device. The C name alone means a function of the same name.
using DeviceType = enum ggml_backend_dev_type;

/// Bytes of a device's memory; zeros if there is nothing to report.
struct MemoryAmount {
    std::size_t free = 0;
    std::size_t total = 0;
};

/// Base of a device: `class Board : public heddle::plugin::Device<Board>`. Its public members:
///
///     const char* name();                            // short and unique, "BOARD0"
///     const char* description();                     // for people
///     DeviceType type();
///     ggml_backend_buffer_type_t buffer_type();
///     auto start(const char* params);                // [1]; `params` may be null
///     std::string_view objection(const ggml_tensor& node);  // [2]; or a std::string
///
/// Optional:
///
///     bool supports(const ggml_tensor& node);        // [5]
///     MemoryAmount memory();
///     const char* id();                              // address on the bus, "0000:01:00.0"
///     bool accepts(ggml_backend_buffer_type_t);      // default: its own buffer types
///     ggml_backend_buffer_type_t host_buffer_type();
///     auto adopt(void* ptr, std::size_t size, std::size_t max_tensor_size);  // [3]
///     bool wants(const ggml_tensor& node);           // here although weights are on the host
///     auto make_event();                             // [4]
///     auto wait(Event&);                             // blocks; streams then record() and wait()
///     void describe(ggml_backend_dev_props&);        // may change what get_props gives
///
/// [1] A unique_ptr of a stream class, or a Result of one.
/// [2] Why the node cannot run here, "" if it can. Asked only about nodes that compute something.
/// [3] A buffer around host memory: ggml_backend_buffer_t, or a Result of one.
/// [4] A unique_ptr of an event class, or a Result of one.
/// [5] In place of `objection`, if there are no reasons to give; or beside it, to answer without
///     words: `objection` is then asked only where they are read, and may take its time.
template <class Self>
class Device {
public:
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;

    /// What the C functions take. Lives as long as this object.
    ggml_backend_dev_t handle() noexcept { return &device_; }

protected:
    explicit Device(ggml_backend_reg_t registration) noexcept
        : device_{table(), registration, static_cast<Self*>(this)} {}
    ~Device() = default;

private:
    static Self& self(ggml_backend_dev_t device) noexcept {
        return *static_cast<Self*>(device->context);
    }
    static auto in(ggml_backend_dev_t device, const char* what) noexcept {
        return [=] { return text(name(device), ": ", what); };
    }

    static const char* name(ggml_backend_dev_t device) noexcept {
        return ask<const char*>("?", [&] { return self(device).name(); });
    }
    static const char* description(ggml_backend_dev_t device) noexcept {
        return ask<const char*>("?", [&] { return self(device).description(); });
    }
    static DeviceType type(ggml_backend_dev_t device) noexcept {
        return ask(GGML_BACKEND_DEVICE_TYPE_ACCEL, [&] { return self(device).type(); });
    }
    static void memory(ggml_backend_dev_t device, std::size_t* free, std::size_t* total) noexcept {
        MemoryAmount amount;
        if constexpr (requires(Self & s) { s.memory(); }) {
            amount = ask(MemoryAmount{}, [&]() -> MemoryAmount { return self(device).memory(); });
        }
        *free = amount.free;
        *total = amount.total;
    }

    static void props(ggml_backend_dev_t device, ggml_backend_dev_props* props) noexcept {
        using Stream =
            typename Unwrapped<decltype(std::declval<Self&>().start(nullptr))>::element_type;
        props->name = name(device);
        props->description = description(device);
        props->type = type(device);
        memory(device, &props->memory_free, &props->memory_total);
        if constexpr (requires(Self & s) { s.id(); }) {
            props->device_id = ask<const char*>(nullptr, [&] { return self(device).id(); });
        }
        props->caps.async = Synchronizes<Stream>;
        props->caps.host_buffer = device->iface.get_host_buffer_type != nullptr;
        props->caps.buffer_from_host_ptr = device->iface.buffer_from_host_ptr != nullptr;
        props->caps.events = device->iface.event_new != nullptr;
        props->caps.mmap_support = props->caps.buffer_from_host_ptr;
        if constexpr (requires(Self & s) { s.describe(*props); }) {
            attempt_status(in(device, "describe"), [&] { return self(device).describe(*props); });
        }
    }

    static ggml_backend_t start(ggml_backend_dev_t device, const char* params) noexcept {
        return attempt_or<ggml_backend_t>(
            nullptr, in(device, "start a stream"), [&]() -> Result<ggml_backend_t> {
                auto stream = attempt([&] { return self(device).start(params); });
                if (!stream) return std::move(stream).error();
                return make_stream<Self>(device, *std::move(stream));
            });
    }

    static bool supports(ggml_backend_dev_t device, const ggml_tensor* node) noexcept {
        if (computes_nothing(*node)) return true;
        return ask(false, [&]() -> bool {
            constexpr bool has_words = requires(Self & s) { s.objection(*node); };
            if constexpr (requires(Self & s) { s.supports(*node); }) {
                if (self(device).supports(*node)) return true;
                if constexpr (has_words) {
                    if (objection_words.wanted) keep_words(self(device).objection(*node));
                }
                return false;
            } else {
                const auto words = self(device).objection(*node);
                if (objection_words.wanted) keep_words(words);
                return words.empty();
            }
        });
    }

    static void keep_words(std::string_view words) noexcept {
        if (!words.empty()) objection_words.keep(words);
    }

    static bool accepts(ggml_backend_dev_t device, ggml_backend_buffer_type_t type) noexcept {
        return ask(false, [&]() -> bool {
            if constexpr (requires(Self & s) { s.accepts(type); }) {
                return self(device).accepts(type);
            } else {
                if constexpr (requires(Self & s) { s.host_buffer_type(); }) {
                    if (type == self(device).host_buffer_type()) return true;
                }
                return type == self(device).buffer_type();
            }
        });
    }

    static ggml_backend_device_i table() noexcept {
        ggml_backend_device_i table = {};
        table.get_name = name;
        table.get_description = description;
        table.get_memory = memory;
        table.get_type = type;
        table.get_props = props;
        table.init_backend = start;
        table.get_buffer_type = [](ggml_backend_dev_t device) {
            return ask<ggml_backend_buffer_type_t>(nullptr,
                                                   [&] { return self(device).buffer_type(); });
        };
        table.supports_op = supports;
        table.supports_buft = accepts;
        add_optional(table);
        if constexpr (requires(Self & s) { s.make_event(); }) add_events(table);
        return table;
    }

    static void add_optional(ggml_backend_device_i& table) noexcept {
        if constexpr (requires(Self & s) { s.host_buffer_type(); }) {
            table.get_host_buffer_type = [](ggml_backend_dev_t device) {
                return ask<ggml_backend_buffer_type_t>(
                    nullptr, [&] { return self(device).host_buffer_type(); });
            };
        }
        if constexpr (requires(Self & s, void* ptr) {
                          s.adopt(ptr, std::size_t{}, std::size_t{});
                      }) {
            table.buffer_from_host_ptr = [](ggml_backend_dev_t device, void* ptr, std::size_t size,
                                            std::size_t max_tensor_size) {
                return attempt_or<ggml_backend_buffer_t>(
                    nullptr, in(device, "adopt host memory"),
                    [&] { return self(device).adopt(ptr, size, max_tensor_size); });
            };
        }
        if constexpr (requires(Self & s, const ggml_tensor& node) { s.wants(node); }) {
            table.offload_op = [](ggml_backend_dev_t device, const ggml_tensor* node) {
                return ask<bool>(false, [&] { return self(device).wants(*node); });
            };
        }
    }

    static void add_events(ggml_backend_device_i& table) noexcept {
        using Event = typename EventOf<Self>::type;
        table.event_new = [](ggml_backend_dev_t device) {
            return attempt_or<ggml_backend_event_t>(
                nullptr, in(device, "event"), [&]() -> Result<ggml_backend_event_t> {
                    auto made = attempt([&] { return self(device).make_event(); });
                    if (!made) return std::move(made).error();
                    std::unique_ptr<Event> impl = *std::move(made);
                    auto* event = new ggml_backend_event{device, impl.get()};
                    impl.release();  // event_free deletes it
                    return event;
                });
        };
        table.event_free = [](ggml_backend_dev_t, ggml_backend_event_t event) {
            delete static_cast<Event*>(event->context);
            delete event;
        };
        table.event_synchronize = [](ggml_backend_dev_t device, ggml_backend_event_t event) {
            attempt_status(in(device, "wait for event"),
                           [&] { return self(device).wait(*static_cast<Event*>(event->context)); });
        };
    }

    ggml_backend_device device_;
};

/// Base of a registration: `class Boards : public heddle::plugin::Registration<Boards>`. Public:
///
///     const char* name();
///     std::size_t device_count();
///     ggml_backend_dev_t device(std::size_t index);
///     void* find(std::string_view name);             // optional: functions of the backend's own
///
/// `find` gives null for names it does not know. HEDDLE_DEVICE_OBJECTION is found without it, in
/// the words of the devices' `objection`.
template <class Self>
class Registration {
public:
    Registration(const Registration&) = delete;
    Registration& operator=(const Registration&) = delete;

    /// What the C functions take. Lives as long as this object.
    ggml_backend_reg_t handle() noexcept { return &registration_; }

protected:
    Registration() noexcept
        : registration_{GGML_BACKEND_API_VERSION, table(), static_cast<Self*>(this)} {}
    ~Registration() = default;

private:
    static Self& self(ggml_backend_reg_t registration) noexcept {
        return *static_cast<Self*>(registration->context);
    }

    static ggml_backend_reg_i table() noexcept {
        ggml_backend_reg_i table = {};
        table.get_name = [](ggml_backend_reg_t registration) {
            return ask<const char*>("?", [&] { return self(registration).name(); });
        };
        table.get_device_count = [](ggml_backend_reg_t registration) {
            return ask<std::size_t>(0, [&] { return self(registration).device_count(); });
        };
        table.get_device = [](ggml_backend_reg_t registration, std::size_t index) {
            return ask<ggml_backend_dev_t>(nullptr, [&]() -> ggml_backend_dev_t {
                if (index >= self(registration).device_count()) return nullptr;
                return self(registration).device(index);
            });
        };
        table.get_proc_address = [](ggml_backend_reg_t registration, const char* name) {
            return ask<void*>(nullptr, [&]() -> void* {
                if (name == nullptr) return nullptr;
                if constexpr (requires(Self & s) { s.find(std::string_view{}); }) {
                    if (void* function = self(registration).find(name)) return function;
                }
                if (std::string_view(name) != HEDDLE_DEVICE_OBJECTION) return nullptr;
                return reinterpret_cast<void*>(objection_of);
            });
        };
        return table;
    }

    ggml_backend_reg registration_;
};

/// The one registration of class R, made by the first call; null if that fails, with the reason
/// reported, and the next call tries again. Never destroyed: devices are used until the process
/// ends.
template <class R>
ggml_backend_reg_t registration() noexcept {
    return ask<ggml_backend_reg_t>(nullptr, [] {
        static Immortal<R> storage;
        static const ggml_backend_reg_t handle = storage.make().handle();
        return handle;
    });
}

}  // namespace heddle::plugin
