#pragma once

#include <dlfcn.h>
#include <unistd.h>

#include <deque>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "heddle/backend.hpp"
#include "heddle/backend/nodes.hpp"

/// What the tests of this folder share.
namespace heddle::test {

namespace fs = std::filesystem;

/// A directory of its own for a test, gone afterwards.
class Directory {
public:
    Directory() {
        std::string pattern = (fs::temp_directory_path() / "heddle-registry-XXXXXX").native();
        path_ = mkdtemp(pattern.data());
    }
    ~Directory() { fs::remove_all(path_); }
    Directory(const Directory&) = delete;
    Directory& operator=(const Directory&) = delete;

    const fs::path& path() const { return path_; }

    /// A copy of one of the test plug-ins under another name.
    fs::path put(const std::string& plugin, const std::string& as) const {
        const fs::path to = path_ / as;
        fs::copy_file(fs::path(HEDDLE_TEST_PLUGINS) / (plugin + ".so"), to);
        return to;
    }

    /// A file with this text.
    fs::path write(const std::string& name, const std::string& text) const {
        const fs::path to = path_ / name;
        std::ofstream(to) << text;
        return to;
    }

private:
    fs::path path_;
};

/// Whether a library is in the process.
inline bool is_open(const fs::path& path) {
    void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
    if (handle != nullptr) dlclose(handle);
    return handle != nullptr;
}

class FakeStream {
public:
    static inline ggml_guid guid = {7, 7, 7};
    void compute_node(ggml_tensor&) {}
};

class FakeDevice : public plugin::Device<FakeDevice> {
public:
    FakeDevice(ggml_backend_reg_t registration, std::string name, plugin::DeviceType type)
        : Device(registration), name_(std::move(name)), type_(type) {}

    const char* name() { return name_.c_str(); }
    const char* description() { return "fake"; }
    plugin::DeviceType type() { return type_; }
    ggml_backend_buffer_type_t buffer_type() { return nullptr; }
    bool supports(const ggml_tensor&) { return false; }
    std::unique_ptr<FakeStream> start(const char*) { return std::make_unique<FakeStream>(); }

private:
    std::string name_;
    plugin::DeviceType type_;
};

/// A backend inside the test, with devices NAME0, NAME1, ...
class FakeBackend : public plugin::Registration<FakeBackend> {
public:
    explicit FakeBackend(std::string name, int devices = 1,
                         plugin::DeviceType type = GGML_BACKEND_DEVICE_TYPE_ACCEL)
        : name_(std::move(name)) {
        for (int i = 0; i < devices; ++i) add_device(name_ + std::to_string(i), type);
    }

    void add_device(std::string name, plugin::DeviceType type = GGML_BACKEND_DEVICE_TYPE_ACCEL) {
        devices_.emplace_back(handle(), std::move(name), type);
    }
    void forget_first_device() { devices_.pop_front(); }

    const char* name() { return name_.c_str(); }
    std::size_t device_count() { return devices_.size(); }
    ggml_backend_dev_t device(std::size_t index) { return devices_[index].handle(); }

private:
    std::string name_;
    std::deque<FakeDevice> devices_;
};

}  // namespace heddle::test
