#include "backends/vulkan/faults.hpp"

#include <cstring>

#include "ggml.h"

namespace heddle::vulkan {
namespace {

/// As shaders/faults.glsl declares it. The one that claims it writes the others.
struct IndexFault {
    std::uint32_t claim;
    std::int32_t op;
    std::int64_t index, extent;
};

}  // namespace

Result<Faults> Faults::make(Gpu& gpu) {
    HEDDLE_TRY_ASSIGN(Memory memory, Memory::make(gpu, sizeof(IndexFault), Placement::staging));
    std::memset(memory.mapped(), 0, memory.size());
    return Faults(std::move(memory));
}

Result<> Faults::report(const Board& board) const {
    IndexFault found{};
    std::memcpy(&found, memory_.mapped(), sizeof found);
    if (found.claim == 0) return ok();
    std::memset(memory_.mapped(), 0, sizeof found);
    return invalid(ggml_op_name(static_cast<ggml_op>(found.op)), " on ", board.name, ": index ",
                   found.index, " is outside of its table, which has ", found.extent, " entries");
}

}  // namespace heddle::vulkan
