#include "backends/cpu/large_pages.hpp"

#include <fstream>
#include <string>

#include "backends/cpu/topology.hpp"
#include "core/context.hpp"

namespace heddle::cpu {
namespace {

class LargePageBufferType : public plugin::BufferType<LargePageBufferType> {
public:
    explicit LargePageBufferType(ggml_backend_dev_t device) : BufferType(device) {}

    const char* name() { return "CPU_LARGE_PAGES"; }
    bool is_host() { return true; }

    Result<std::unique_ptr<HostMemoryBuffer>> allocate(std::size_t size) {
        HEDDLE_TRY_ASSIGN(HostMemory memory, allocate_weights(size));
        return std::make_unique<HostMemoryBuffer>(std::move(memory));
    }
};

bool system_offers_large_pages() {
#if defined(__linux__)
    std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
    std::string setting;
    std::getline(file, setting);
    return offers_large_pages(setting);
#else
    return false;
#endif
}

}  // namespace

bool offers_large_pages(std::string_view setting) {
    return setting.find("[always]") != setting.npos || setting.find("[madvise]") != setting.npos;
}

Result<HostMemory> allocate_weights(std::size_t size) {
    const std::size_t all = physical_memory();
    if (all != 0 && size > all) {
        return failure(Errc::out_of_memory, "weights of ", size,
                       " bytes do not fit into the machine's memory of ", all,
                       " bytes; they can be used where their file is mapped");
    }
    HostMemory memory(static_cast<std::byte*>(aligned_allocate(size)), aligned_free);
    if (memory == nullptr) {
        return failure(Errc::out_of_memory, "no memory for weights of ", size, " bytes");
    }
    return memory;
}

ggml_backend_buffer_type_t large_page_buffer_type(ggml_backend_dev_t device) {
    static const bool offered = system_offers_large_pages();
    if (!offered) return nullptr;
    static plugin::Immortal<LargePageBufferType> storage;
    static LargePageBufferType& type = storage.make(device);
    return type.handle();
}

}  // namespace heddle::cpu
