#include "runtime/alloc/context_allocator.hpp"

#include <bit>
#include <vector>

#include "runtime/alloc/linear.hpp"
#include "runtime/buffer.hpp"
#include "runtime/meta/context_allocation.hpp"
#include "runtime/multi_buffer.hpp"
#include "runtime/placement.hpp"

namespace heddle {
namespace {

/// Consecutive tensors that go into one buffer, views among them included.
struct Range {
    std::size_t size = 0;
    std::vector<Tensor*> tensors;
};

bool needs_memory(const Tensor& tensor) {
    return tensor.data == nullptr && tensor.buffer == nullptr && tensor.view_src == nullptr;
}

/// Cuts the context where the next tensor would make a buffer larger than the type allows.
Result<std::vector<Range>> cut(const Context& context, BufferType& type) {
    const std::size_t alignment = alignment_of(type), limit = max_size_of(type);
    if (!std::has_single_bit(alignment)) {
        return invalid("buffer type '", name_of(type), "': an alignment of ", alignment,
                       " is not a power of two");
    }
    if (!context.no_alloc) {
        return invalid("allocating a context: it was made with data of its own (no_alloc is off)");
    }
    std::vector<Range> ranges(1);
    for (Tensor* tensor = first_tensor(context); tensor != nullptr; tensor = next_tensor(*tensor)) {
        std::size_t size = 0;
        if (needs_memory(*tensor)) {
            HEDDLE_TRY_ASSIGN(size, padded_size(*tensor, alloc_size_of(type, *tensor), alignment));
        }
        const std::size_t sum = ranges.back().size;
        if (sum > 0 && (sum > limit || size > limit - sum)) ranges.emplace_back();
        ranges.back().size += size;
        ranges.back().tensors.push_back(tensor);
    }
    return ranges;
}

/// Places what it is given, and takes everything back unless told to keep it.
class Placer {
public:
    Placer() = default;
    ~Placer() {
        for (const Before& before : placed_) {
            before.tensor->buffer = nullptr;
            before.tensor->data = before.data;
        }
    }
    Placer(const Placer&) = delete;
    Placer& operator=(const Placer&) = delete;

    Result<> place(LinearAllocator& allocator, Tensor& tensor) {
        return noted(tensor, [&] { return allocate_next(allocator, tensor); });
    }
    Result<> place_view_of_root(Tensor& view) {
        return noted(view, [&] { return place_view(view); });
    }
    void keep() { placed_.clear(); }

private:
    struct Before {
        Tensor* tensor;
        void* data;
    };

    template <class Action>
    Result<> noted(Tensor& tensor, Action action) {
        placed_.push_back({&tensor, tensor.data});  // first: it may run out of memory
        return action();
    }

    std::vector<Before> placed_;
};

Result<> place_range(const Range& range, Buffer* buffer, Placer& placer) {
    LinearAllocator allocator{};
    if (buffer != nullptr) {
        HEDDLE_TRY_ASSIGN(allocator, make_linear_allocator(*buffer));
    }
    for (Tensor* tensor : range.tensors) {
        if (buffer != nullptr && needs_memory(*tensor)) {
            HEDDLE_TRY(placer.place(allocator, *tensor));
        } else if (tensor->view_src != nullptr && tensor->buffer == nullptr) {
            // Where nothing is allocated, views of what has no memory wait for it to get some.
            if (buffer == nullptr && tensor->view_src->buffer == nullptr) continue;
            HEDDLE_TRY(placer.place_view_of_root(*tensor));
        }
    }
    return ok();
}

/// One buffer for all: null for none, the only one itself, a multi-buffer for more.
Result<OwnedBuffer> unite(std::vector<OwnedBuffer> buffers) {
    if (buffers.empty()) return OwnedBuffer();
    if (buffers.size() == 1) return std::move(buffers.front());
    std::vector<Buffer*> parts;
    parts.reserve(buffers.size());
    for (const OwnedBuffer& each : buffers) parts.push_back(each.get());
    HEDDLE_TRY_ASSIGN(OwnedBuffer whole, make_multi_buffer(parts));
    for (OwnedBuffer& each : buffers) static_cast<void>(each.release());  // now the whole's
    return whole;
}

}  // namespace

Result<std::size_t> measure_context(const Context& context, BufferType& type) {
    HEDDLE_TRY_ASSIGN(const std::vector<Range> ranges, cut(context, type));
    std::size_t total = 0;
    for (const Range& range : ranges) total += range.size;
    return total;
}

Result<OwnedBuffer> allocate_context(Context& context, BufferType& type) {
    if (meta::JoinedDevice* const joined = meta::joined(&type)) {
        return meta::allocate_context(context, *joined);
    }
    HEDDLE_TRY_ASSIGN(const std::vector<Range> ranges, cut(context, type));
    std::vector<OwnedBuffer> buffers;
    Placer placer;
    for (const Range& range : ranges) {
        Buffer* buffer = nullptr;
        if (range.size > 0) {
            HEDDLE_TRY_ASSIGN(OwnedBuffer allocated, allocate(type, range.size));
            buffer = buffers.emplace_back(std::move(allocated)).get();
        }
        HEDDLE_TRY(place_range(range, buffer, placer));
    }
    HEDDLE_TRY_ASSIGN(OwnedBuffer whole, unite(std::move(buffers)));
    placer.keep();
    return whole;
}

}  // namespace heddle
