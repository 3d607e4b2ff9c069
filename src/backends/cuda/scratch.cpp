#include "backends/cuda/scratch.hpp"

namespace heddle::cuda {

Result<std::byte*> Scratch::reserve(std::size_t size) {
    if (size > size_) {
        void* memory = nullptr;
        HEDDLE_TRY(check(take([&] { return cudaMalloc(&memory, size); }), "allocating ",
                         describe_bytes(size), " of scratch memory on ", board_.name));
        memory_ = DeviceMemory(memory);
        size_ = size;
    }
    return static_cast<std::byte*>(memory_.get());
}

}  // namespace heddle::cuda
