#include "runtime/buffer_count.hpp"

#include <mutex>
#include <new>
#include <unordered_map>

#include "runtime/buffer_type.hpp"

namespace heddle {
namespace {

struct Counts {
    std::mutex mutex;
    std::unordered_map<const Registration*, long> of;
};

/// Never destroyed: programs free their last buffers while the process ends.
Counts& counts() {
    static Counts& all = *new Counts;
    return all;
}

}  // namespace

Registration* count_buffer(BufferType& type) noexcept {
    const Device* device = device_of(type);
    if (device == nullptr || device->reg == nullptr) return nullptr;
    try {
        const std::lock_guard lock(counts().mutex);
        ++counts().of[device->reg];
        return device->reg;
    } catch (const std::bad_alloc&) {
        return nullptr;  // not counted, and so not discounted either
    }
}

void discount_buffer(Registration* registration) noexcept {
    if (registration == nullptr) return;
    const std::lock_guard lock(counts().mutex);
    const auto found = counts().of.find(registration);
    if (--found->second == 0) counts().of.erase(found);
}

}  // namespace heddle

long heddle_live_buffers(ggml_backend_reg_t registration) {
    auto& counts = heddle::counts();
    const std::lock_guard lock(counts.mutex);
    const auto found = counts.of.find(registration);
    return found == counts.of.end() ? 0 : found->second;
}
