#include "registry/registry.hpp"

#include <algorithm>

#include "core/log.hpp"
#include "registry/table_check.hpp"

namespace heddle {
namespace {

using Picture = Registry::Picture;

/// Asks a backend for all its devices. Those that could not be used are left out.
std::vector<Registry::Listed> devices_of(ggml_backend_reg_t registration, std::string_view origin) {
    const UsableDevices usable = usable_devices(registration);
    if (!usable.left_out.empty()) {
        log_line(GGML_LOG_LEVEL_WARN, origin, origin.empty() ? "" : ": ", name_of(registration),
                 ": ", usable.left_out);
    }
    std::vector<Registry::Listed> devices;
    devices.reserve(usable.devices.size());
    for (ggml_backend_dev_t device : usable.devices) {
        devices.push_back({device, device->reg, registration});
    }
    return devices;
}

template <class AnyPicture>
auto entry_of(AnyPicture& picture, ggml_backend_reg_t registration) {
    return std::find_if(
        picture.entries.begin(), picture.entries.end(),
        [&](const Registry::Entry& entry) { return entry.registration == registration; });
}

bool knows(const Picture& picture, ggml_backend_dev_t device) {
    return std::any_of(picture.devices.begin(), picture.devices.end(),
                       [&](const Registry::Listed& listed) { return listed.device == device; });
}

void append_new(Picture& picture, const std::vector<Registry::Listed>& devices) {
    for (const Registry::Listed& listed : devices) {
        if (!knows(picture, listed.device)) picture.devices.push_back(listed);
    }
}

/// What goes last goes there; the rest stays in its order.
void sort(Picture& picture) {
    const auto is_not_last = [](const Registry::Entry& entry) { return !entry.is_last; };
    const auto goes_before = [&](const Registry::Listed& listed) {
        const auto entry = entry_of(picture, listed.source);
        return entry == picture.entries.end() || !entry->is_last;
    };
    std::stable_partition(picture.entries.begin(), picture.entries.end(), is_not_last);
    std::stable_partition(picture.devices.begin(), picture.devices.end(), goes_before);
}

constexpr char lower(char c) { return 'A' <= c && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

}  // namespace

std::string_view name_of(ggml_backend_reg_t registration) {
    const char* name = registration->iface.get_name(registration);
    return name != nullptr ? name : "";
}

std::string_view name_of(ggml_backend_dev_t device) {
    const char* name = device->iface.get_name(device);
    return name != nullptr ? name : "";
}

bool same_name(std::string_view a, std::string_view b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](char x, char y) { return lower(x) == lower(y); });
}

std::shared_ptr<const Registry::Picture> Registry::picture() const {
    const std::lock_guard lock(mutex_);
    return current_;
}

template <class Change>
bool Registry::publish(const Change& change) {
    std::shared_ptr<const Picture> old;  // dropped after the lock: that may close a library
    const std::lock_guard lock(mutex_);
    auto next = std::make_shared<Picture>(*current_);
    if (!change(*next)) return false;
    sort(*next);
    old = std::move(current_);
    current_ = std::move(next);
    return true;
}

bool Registry::add(ggml_backend_reg_t registration, Library library, std::string origin) {
    const auto devices = devices_of(registration, origin);
    return publish([&](Picture& picture) {
        if (entry_of(picture, registration) != picture.entries.end()) return false;
        picture.entries.push_back({registration, library, origin, false});
        append_new(picture, devices);
        return true;
    });
}

void Registry::add(ggml_backend_dev_t device) {
    publish([&](Picture& picture) {
        if (knows(picture, device)) return false;
        picture.devices.push_back({device, device->reg, device->reg});
        return true;
    });
}

void Registry::refresh(ggml_backend_reg_t registration) {
    const auto devices = devices_of(registration, {});
    publish([&](Picture& picture) {
        std::erase_if(picture.devices,
                      [&](const Listed& listed) { return listed.source == registration; });
        append_new(picture, devices);
        return true;
    });
}

void Registry::keep_last(ggml_backend_reg_t registration) {
    publish([&](Picture& picture) {
        const auto entry = entry_of(picture, registration);
        if (entry == picture.entries.end()) return false;
        entry->is_last = true;
        return true;
    });
}

Result<Registry::Entry> Registry::remove(ggml_backend_reg_t registration) {
    Entry removed{};
    const bool known = publish([&](Picture& picture) {
        const auto entry = entry_of(picture, registration);
        if (entry == picture.entries.end()) return false;
        removed = std::move(*entry);
        picture.entries.erase(entry);
        std::erase_if(picture.devices, [&](const Listed& listed) {
            return listed.owner == registration || listed.source == registration;
        });
        return true;
    });
    if (!known) return failure(Errc::not_found, "this registration is not known");
    return removed;
}

bool Registry::has(ggml_backend_reg_t registration) const {
    const auto now = picture();
    return entry_of(*now, registration) != now->entries.end();
}

ggml_backend_reg_t Registry::find_registration(std::string_view name) const {
    const auto now = picture();
    for (const Entry& entry : now->entries) {
        if (same_name(name_of(entry.registration), name)) return entry.registration;
    }
    return nullptr;
}

ggml_backend_dev_t Registry::find_device(std::string_view name) const {
    const auto now = picture();
    for (const Listed& listed : now->devices) {
        if (same_name(name_of(listed.device), name)) return listed.device;
    }
    return nullptr;
}

ggml_backend_dev_t Registry::find_device(enum ggml_backend_dev_type type) const {
    const auto now = picture();
    for (const Listed& listed : now->devices) {
        if (listed.device->iface.get_type(listed.device) == type) return listed.device;
    }
    return nullptr;
}

}  // namespace heddle
