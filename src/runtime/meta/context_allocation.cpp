#include "runtime/meta/context_allocation.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include "runtime/alloc/context_allocator.hpp"
#include "runtime/alloc/linear.hpp"
#include "runtime/meta/buffer.hpp"
#include "runtime/meta/states.hpp"
#include "runtime/placement.hpp"

namespace heddle::meta {
namespace {

/// A tensor that gets memory, and where.
struct Entry {
    Tensor* tensor;
    Split split;
    std::size_t offset;
};

struct Contents {
    std::vector<Entry> entries;
    std::vector<Tensor*> views;
    std::size_t size = 0;
    bool needs_memory = false;
};

Result<Contents> look_at(Context& context, JoinedDevice& device) {
    JoinedMemory& memory = device.memory_type();
    States states(device);
    Contents contents;
    for (Tensor* tensor = first_tensor(context); tensor != nullptr; tensor = next_tensor(*tensor)) {
        if (tensor->view_src != nullptr) {
            if (tensor->buffer == nullptr) contents.views.push_back(tensor);
            continue;
        }
        if (tensor->data != nullptr || tensor->buffer != nullptr) continue;
        auto split = tensor->op == kNoOp ? device.ask(*tensor) : states.of(*tensor);
        if (!split) return std::move(split).error();
        states.set(*tensor, *split);
        const std::size_t wanted = memory.alloc_size(*tensor);
        contents.needs_memory |= wanted > 0;
        // Tensors of no bytes get an address too, which tells them apart.
        HEDDLE_TRY_ASSIGN(
            const std::size_t size,
            padded_size(*tensor, std::max<std::size_t>(wanted, 1), memory.alignment()));
        contents.entries.push_back({tensor, *std::move(split), contents.size});
        if (__builtin_add_overflow(contents.size, size, &contents.size)) {
            return failure(Errc::out_of_memory, "placing ", heddle::describe(*tensor),
                           ": the context is larger than can be addressed");
        }
    }
    return contents;
}

/// The slices of one device with memory of their own, in the order of `contents`.
struct DeviceSlices {
    OwnedBuffer buffer;
    std::vector<Tensor> slices;
};

Result<DeviceSlices> allocate_slices(const Contents& contents, JoinedDevice& device,
                                     std::size_t number) {
    HEDDLE_TRY_ASSIGN(const OwnedContext context,
                      make_context((contents.entries.size() + 1) * kTensorOverhead, nullptr, true));
    std::vector<Tensor*> tensors;
    for (const Entry& entry : contents.entries) {
        HEDDLE_TRY_ASSIGN(const Tensor slice, slice_of(*entry.tensor, entry.split, number));
        HEDDLE_TRY_ASSIGN(Tensor* const tensor,
                          new_tensor(*context, slice.type, extents_of(slice)));
        set_name(*tensor, heddle::name_of(slice));
        std::ranges::copy(slice.nb, tensor->nb);
        tensors.push_back(tensor);
    }
    BufferType& type = device.memory_type().type(number);
    DeviceSlices done;
    HEDDLE_TRY_ASSIGN(done.buffer, heddle::allocate_context(*context, type));
    for (const Tensor* tensor : tensors) done.slices.push_back(*tensor);
    return done;
}

/// Places tensors; they lose their places again unless all get one.
class Placer {
public:
    Placer() = default;
    Placer(const Placer&) = delete;
    Placer& operator=(const Placer&) = delete;
    ~Placer() {
        for (const Before& before : placed_) {
            before.tensor->buffer = nullptr;
            before.tensor->data = before.data;
        }
    }

    Result<> place(const Contents& contents, Buffer& buffer) {
        HEDDLE_TRY_ASSIGN(void* const base, base_of(buffer));
        for (const Entry& entry : contents.entries) {
            placed_.push_back({entry.tensor, entry.tensor->data});
            const auto address = reinterpret_cast<std::uintptr_t>(base) + entry.offset;
            HEDDLE_TRY(place_tensor(buffer, *entry.tensor, reinterpret_cast<void*>(address)));
        }
        for (Tensor* view : contents.views) {
            placed_.push_back({view, view->data});
            HEDDLE_TRY(place_view(*view));
        }
        return ok();
    }
    void keep() { placed_.clear(); }

private:
    struct Before {
        Tensor* tensor;
        void* data;
    };
    std::vector<Before> placed_;
};

}  // namespace

Result<OwnedBuffer> allocate_context(Context& context, JoinedDevice& device) {
    if (!context.no_alloc) {
        return invalid("allocating a context: it was made with data of its own (no_alloc is off)");
    }
    HEDDLE_TRY_ASSIGN(Contents contents, look_at(context, device));
    if (!contents.needs_memory) return OwnedBuffer();

    std::vector<OwnedBuffer> buffers;
    std::vector<std::vector<Tensor>> slices;
    for (std::size_t j = 0; j < device.size(); ++j) {
        auto done = allocate_slices(contents, device, j);
        if (!done) {
            return std::move(done).error().within(heddle::name_of(device.device(j)));
        }
        buffers.push_back(std::move(done->buffer));
        slices.push_back(std::move(done->slices));
    }
    auto impl = std::make_unique<JoinedBuffer>(device, std::move(buffers), contents.size,
                                               Placing::by_tensor);
    for (std::size_t i = 0; i < contents.entries.size(); ++i) {
        Parts parts{contents.entries[i].split, {}};
        for (const std::vector<Tensor>& own : slices) parts.slices.push_back(own[i]);
        impl->add(contents.entries[i].offset, std::move(parts));
    }
    HEDDLE_TRY_ASSIGN(Buffer* const made,
                      plugin::make_buffer(device.buffer_type(), std::move(impl), contents.size));
    OwnedBuffer buffer(made);
    Placer placer;
    HEDDLE_TRY(placer.place(contents, *buffer));
    placer.keep();
    return buffer;
}

}  // namespace heddle::meta
