#include "backends/cpu/hbm_buffer.hpp"

#include <algorithm>
#include <string>

#if defined(__linux__)
#include <dlfcn.h>
#endif

#include "backends/cpu/host_memory.hpp"
#include "backends/cpu/topology.hpp"
#include "ggml-impl.h"

namespace heddle::cpu {
namespace {

constexpr std::size_t kHbmAlignment = 64;  // of the memory; tensors need no more than elsewhere

class HbmBufferType : public plugin::BufferType<HbmBufferType> {
public:
    HbmBufferType(const HbmAllocator& allocator, ggml_backend_dev_t device)
        : BufferType(device), allocator_(allocator) {}

    const char* name() { return "CPU_HBM"; }
    std::size_t alignment() { return TENSOR_ALIGNMENT; }
    bool is_host() { return true; }

    Result<std::unique_ptr<HostMemoryBuffer>> allocate(std::size_t size) {
        void* memory = nullptr;
        if (allocator_.allocate(&memory, kHbmAlignment, size) != 0) {
            return failure(Errc::out_of_memory, "no high-bandwidth memory for ", size, " bytes");
        }
        return std::make_unique<HostMemoryBuffer>(
            HostMemory(static_cast<std::byte*>(memory), allocator_.release));
    }

private:
    const HbmAllocator allocator_;
};

CpuList read_list(const std::string& path) { return parse_cpu_list(read_file(path)).value_or({}); }

bool has_memory_without_cpus() {
    const CpuList with_memory = read_list("/sys/devices/system/node/has_memory");
    const CpuList with_cpus = read_list("/sys/devices/system/node/has_cpu");
    return !std::includes(with_cpus.begin(), with_cpus.end(), with_memory.begin(),
                          with_memory.end());
}

HbmAllocator open_memkind() {
#if defined(__linux__)
    if (!has_memory_without_cpus()) return {};
    void* library = dlopen("libmemkind.so.0", RTLD_NOW | RTLD_LOCAL);  // stays open
    if (library == nullptr) return {};
    const auto available = reinterpret_cast<int (*)()>(dlsym(library, "hbw_check_available"));
    if (available == nullptr || available() != 0) return {};
    return {reinterpret_cast<int (*)(void**, std::size_t, std::size_t)>(
                dlsym(library, "hbw_posix_memalign")),
            reinterpret_cast<void (*)(void*)>(dlsym(library, "hbw_free"))};
#else
    return {};
#endif
}

}  // namespace

const HbmAllocator& memkind_allocator() {
    static const HbmAllocator allocator = open_memkind();
    return allocator;
}

ggml_backend_buffer_type_t hbm_buffer_type(const HbmAllocator& allocator,
                                           ggml_backend_dev_t device) {
    if (!allocator) return nullptr;
    static plugin::Immortal<HbmBufferType> storage;
    static HbmBufferType& type = storage.make(allocator, device);
    return type.handle();
}

}  // namespace heddle::cpu
