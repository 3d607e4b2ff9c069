/// Devices and streams on them. Part of `heddle/heddle.hpp`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "../../ggml-cpp.h"
#include "../backend/objection.h"
#include "graph.hpp"

namespace heddle::api {

class Device;

/// In-order work on a device.
class Stream {
public:
    explicit Stream(ggml_backend_t stream) : stream_(stream) {}

    ggml_backend_t c() const { return stream_.get(); }
    std::string name() const { return ggml_backend_name(c()); }
    Device device() const;

    /// Computes all of `graph` here, and waits. Its tensors have memory that the device can reach
    /// (Buffer::for_all()); a Scheduler sees to that itself, over any number of devices.
    Result<> compute(const Graph& graph) {
        return detail::from(
            detail::call([&] { return ggml_backend_graph_compute(c(), graph.c()); }));
    }
    /// Waits until everything queued is done.
    Result<> wait() {
        detail::call([&] {
            ggml_backend_synchronize(c());
            return 0;
        });
        return detail::check_said(Errc::device);
    }

    /// How many threads compute; false where a device has none to set.
    bool set_threads(int threads) const;

private:
    ggml_backend_ptr stream_;
};

/// A device that is there: a light handle, valid until its plug-in is unloaded.
class Device {
public:
    explicit Device(ggml_backend_dev_t device) : device_(device) {}

    /// All devices, in the order of preference of their registration. Loads plug-ins first.
    static std::vector<Device> all() {
        load();
        std::vector<Device> devices;
        for (std::size_t i = 0; i < ggml_backend_dev_count(); ++i) {
            devices.emplace_back(ggml_backend_dev_get(i));
        }
        return devices;
    }

    /// By name, without regard to case; "sim:..." makes simulated ones.
    static Result<Device> find(const std::string& name) {
        load();
        ggml_backend_dev_t found =
            detail::call([&] { return ggml_backend_dev_by_name(name.c_str()); });
        if (found != nullptr) return Device(found);
        HEDDLE_TRY(detail::check_said(Errc::invalid_argument));  // parameters that make no sense
        std::string known;
        for (const Device& device : all()) known += (known.empty() ? "" : ", ") + device.name();
        return failure(Errc::not_found, "no device is called '", name, "'; there are ", known);
    }

    /// All devices that a text with parameters makes, such as "sim:devices=2"; the one of that name
    /// otherwise.
    static Result<std::vector<Device>> find_all(const std::string& name) {
        HEDDLE_TRY_ASSIGN(const Device first, find(name));
        if (name.find(':') == std::string::npos) return std::vector{first};
        ggml_backend_reg_t registration = ggml_backend_dev_backend_reg(first.c());
        std::vector<Device> devices;
        for (std::size_t i = 0; i < ggml_backend_reg_dev_count(registration); ++i) {
            devices.emplace_back(ggml_backend_reg_dev_get(registration, i));
        }
        return devices;
    }

    /// The one to prefer for a whole graph: a graphics card, an integrated one, else the processor.
    static Result<Device> best() {
        load();
        for (const auto type : {GGML_BACKEND_DEVICE_TYPE_GPU, GGML_BACKEND_DEVICE_TYPE_IGPU}) {
            ggml_backend_dev_t found = ggml_backend_dev_by_type(type);
            if (found != nullptr) return Device(found);
        }
        return cpu();
    }

    /// The processor.
    static Result<Device> cpu() {
        load();
        ggml_backend_dev_t found = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
        if (found != nullptr) return Device(found);
        return failure(Errc::not_found, "no CPU backend is there");
    }

    std::string name() const { return ggml_backend_dev_name(device_); }
    std::string description() const { return ggml_backend_dev_description(device_); }
    enum ggml_backend_dev_type type() const { return ::ggml_backend_dev_type(device_); }
    bool is_cpu() const { return type() == GGML_BACKEND_DEVICE_TYPE_CPU; }
    ggml_backend_dev_props properties() const {
        ggml_backend_dev_props props{};
        ggml_backend_dev_get_props(device_, &props);
        return props;
    }
    /// Bytes there are and bytes that are free; 0 where the device does not say.
    struct Memory {
        std::size_t free = 0, total = 0;
    };
    Memory memory() const {
        Memory memory;
        ggml_backend_dev_memory(device_, &memory.free, &memory.total);
        return memory;
    }

    bool supports(const Tensor& node) const {
        return node && ggml_backend_dev_supports_op(device_, node.c());
    }
    /// What it has against computing `node`, in words; empty if it can.
    std::string objection(const Tensor& node) const {
        return node ? objection(*node.c()) : "the op could not be built";
    }
    std::string objection(const ggml_tensor& node) const {
        if (detail::call([&] { return ggml_backend_dev_supports_op(device_, &node); })) return {};
        const std::string reported = heddle_last_error();  // by a device that failed while asked
        const auto ask = function<heddle_device_objection_t>(HEDDLE_DEVICE_OBJECTION);
        const std::string said = ask != nullptr ? ask(device_, &node) : "";
        if (!said.empty()) return said;
        return reported.empty() ? "the device does not say why" : reported;
    }

    /// A function of its backend that the C headers do not declare, by the name and with the type
    /// that the backend documents; null if there is none. Joined devices have no functions.
    template <class Function>
    Function function(const char* name) const {
        ggml_backend_reg_t registration = ggml_backend_dev_backend_reg(device_);
        if (registration == nullptr) return nullptr;
        return reinterpret_cast<Function>(ggml_backend_reg_get_proc_address(registration, name));
    }

    ggml_backend_buffer_type_t buffer_type() const { return ggml_backend_dev_buffer_type(device_); }
    ggml_backend_dev_t c() const { return device_; }

    Result<Stream> start() const {
        ggml_backend_t stream =
            detail::call([&] { return ggml_backend_dev_init(device_, nullptr); });
        if (stream != nullptr) return Stream(stream);
        return detail::last_failure(Errc::device, "the device gives no stream");
    }

    bool operator==(const Device&) const = default;

private:
    static void load() {
        static const bool loaded = [] {
            ggml_backend_load_all();
            return true;
        }();
        (void)loaded;
    }

    ggml_backend_dev_t device_;
};

inline Device Stream::device() const { return Device(ggml_backend_get_device(c())); }

inline bool Stream::set_threads(int threads) const {
    const auto set = device().function<ggml_backend_set_n_threads_t>("ggml_backend_set_n_threads");
    if (set != nullptr) set(c(), threads);
    return set != nullptr;
}

}  // namespace heddle::api
