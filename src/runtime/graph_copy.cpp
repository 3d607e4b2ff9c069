#include "runtime/graph_copy.hpp"

#include <cstring>
#include <utility>
#include <vector>

#include "runtime/buffer.hpp"
#include "runtime/closure.hpp"
#include "runtime/multi_buffer.hpp"
#include "runtime/placement.hpp"
#include "runtime/stream.hpp"
#include "runtime/transfer.hpp"

namespace heddle {
namespace {

// ---- memory ------------------------------------------------------------------------------------

/// Tensors that follow each other in one buffer.
struct Run {
    std::size_t first = 0, count = 0, bytes = 0;
};

/// `tensors` in as few buffers as the limit of `type` allows. Not even one is larger than it must be.
Result<std::vector<Run>> divide(std::span<Tensor* const> tensors, BufferType& type) {
    const std::size_t limit = max_size_of(type), alignment = alignment_of(type);
    std::vector<Run> runs;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        std::size_t size = alloc_size_of(type, *tensors[i]);
        if (__builtin_add_overflow(size, alignment - 1, &size)) {
            return invalid("graph copy: ", describe(*tensors[i]), " is too large to address");
        }
        size &= ~(alignment - 1);
        if (runs.empty() || (runs.back().bytes > 0 &&
                             (size > limit || runs.back().bytes > limit - size))) {
            runs.push_back({.first = i});
        }
        ++runs.back().count;
        runs.back().bytes += size;
    }
    return runs;
}

/// A buffer with all tensors of a run in it.
Result<OwnedBuffer> place_run(std::span<Tensor* const> tensors, BufferType& type,
                              std::size_t bytes) {
    HEDDLE_TRY_ASSIGN(Buffer* const made, allocate(type, bytes));
    OwnedBuffer buffer(made);
    if (bytes == 0) return buffer;  // nothing but empty tensors: they need no address
    HEDDLE_TRY_ASSIGN(void* const base, base_of(*buffer));
    const std::size_t alignment = alignment_of(type);
    std::size_t offset = 0;
    for (Tensor* tensor : tensors) {
        HEDDLE_TRY(place_tensor(*buffer, *tensor, static_cast<std::byte*>(base) + offset));
        offset += (alloc_size_of(type, *tensor) + alignment - 1) & ~(alignment - 1);
    }
    return buffer;
}
}
}
