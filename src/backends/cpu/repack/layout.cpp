#include "backends/cpu/repack/layout.hpp"

#include <cstring>

#include "ggml-common.h"

namespace heddle::cpu {
namespace {

/// Fields in the order in which kernels read them, so that the hardware prefetcher
/// follows.
constexpr RepackLayout kLayouts[] = {
    {GGML_TYPE_Q4_0,
     sizeof(block_q4_0),
     QK4_0,
     {{{offsetof(block_q4_0, qs), 4, 4}, {offsetof(block_q4_0, d), 2, 1}}}},
    {GGML_TYPE_Q8_0,
     sizeof(block_q8_0),
     QK8_0,
     {{{offsetof(block_q8_0, qs), 4, 8}, {offsetof(block_q8_0, d), 2, 1}}}},
    {GGML_TYPE_IQ4_NL,
     sizeof(block_iq4_nl),
     QK4_NL,
     {{{offsetof(block_iq4_nl, qs), 4, 4}, {offsetof(block_iq4_nl, d), 2, 1}}}},
    {GGML_TYPE_MXFP4,
     sizeof(block_mxfp4),
     QK_MXFP4,
     {{{offsetof(block_mxfp4, qs), 4, 4}, {offsetof(block_mxfp4, e), 1, 1}}}},
    {GGML_TYPE_Q2_K,
     sizeof(block_q2_K),
     QK_K,
     {{{offsetof(block_q2_K, d), 2, 2},
       {offsetof(block_q2_K, scales), 1, 16},
       {offsetof(block_q2_K, qs), 4, 16}}}},
    {GGML_TYPE_Q4_K,
     sizeof(block_q4_K),
     QK_K,
     {{{offsetof(block_q4_K, d), 2, 2},
       {offsetof(block_q4_K, scales), 4, 3},
       {offsetof(block_q4_K, qs), 4, 32}}}},
};

constexpr bool all_bytes_have_a_place() {
    for (const RepackLayout& layout : kLayouts) {
        std::size_t size = 0;
        for (const RepackField& field : layout.fields) size += field.size();
        if (size != layout.block_size) return false;
    }
    return true;
}
static_assert(all_bytes_have_a_place());

/// One unit of each of `rows` rows, `pitch` bytes apart.
template <std::size_t kUnit>
void gather(const std::byte* from, std::size_t pitch, std::int64_t rows, std::byte* to) {
    for (std::int64_t r = 0; r < rows; ++r, from += pitch, to += kUnit) {
        std::memcpy(to, from, kUnit);
    }
}

void gather_field(const RepackField& field, const std::byte* block, std::size_t pitch,
                  std::int64_t rows, std::byte* to) {
    const std::byte* from = block + field.offset;
    for (std::size_t i = 0; i < field.count; ++i, from += field.unit) {
        switch (field.unit) {
            case 1:
                gather<1>(from, pitch, rows, to);
                break;
            case 2:
                gather<2>(from, pitch, rows, to);
                break;
            default:
                gather<4>(from, pitch, rows, to);
        }
        to += static_cast<std::size_t>(rows) * field.unit;
    }
}

}  // namespace

const RepackLayout* repack_layout_of(Type type) {
    for (const RepackLayout& layout : kLayouts) {
        if (layout.type == type) return &layout;
    }
    return nullptr;
}

void repack_micro_panel(const RepackLayout& layout, const std::byte* from, std::int64_t rows,
                        std::int64_t blocks, std::byte* to) {
    const std::size_t pitch = layout.block_size * static_cast<std::size_t>(blocks);
    for (std::int64_t b = 0; b < blocks; ++b, from += layout.block_size) {
        layout.for_fields(b, [&](const RepackField& field) {
            gather_field(field, from, pitch, rows, to);
            to += field.size() * static_cast<std::size_t>(rows);
        });
    }
}

void restore_blocks(const RepackLayout& layout, const std::byte* micro_panel, std::int64_t rows,
                    std::int64_t row, std::int64_t first, std::int64_t count, std::byte* to) {
    const auto n = static_cast<std::size_t>(rows);
    const std::byte* from = micro_panel + static_cast<std::size_t>(first) * layout.block_size * n;
    for (std::int64_t b = first; b < first + count; ++b, to += layout.block_size) {
        layout.for_fields(b, [&](const RepackField& field) {
            const std::byte* unit = from + static_cast<std::size_t>(row) * field.unit;
            for (std::size_t i = 0; i < field.count; ++i, unit += n * field.unit) {
                std::memcpy(to + field.offset + i * field.unit, unit, field.unit);
            }
            from += field.size() * n;
        });
    }
}

void widen_micro_panel(const RepackLayout& layout, const std::byte* from, std::int64_t count,
                       std::byte* to) {
    for (std::int64_t b = 0; b < count; ++b) {
        layout.for_fields(b, [&](const RepackField& field) {
            const std::size_t half = static_cast<std::size_t>(kRepackRowStep) * field.unit;
            for (std::size_t i = 0; i < field.count; ++i, from += half, to += 2 * half) {
                std::memcpy(to, from, half);
                std::memset(to + half, 0, half);
            }
        });
    }
}

}  // namespace heddle::cpu
