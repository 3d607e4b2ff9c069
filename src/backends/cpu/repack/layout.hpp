#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/type.hpp"

/// Matrices of blocks, rearranged so that a vector has one lane per row.
///
/// Sixteen rows make a micro-panel; the last micro-panel of a matrix may have eight. A micro-panel
/// holds the first block of each row, then the second of each, and so on. The bytes of these blocks
/// are sorted by what they are: codes, then scales and other fields. Each field is a series of
/// units (bytes, halves or words), and a unit of one row is followed by the same unit of the next
/// row. So a matrix keeps its size, products read it from beginning to end, and every instruction
/// set reads the same layout: sixteen rows with one vector, or with two or four.
///
/// Where the last field is less than a cache line, it is the first in every other block: so codes
/// always begin with a line.
namespace heddle::cpu {

inline constexpr std::int64_t kRepackRows = 16;
inline constexpr std::int64_t kRepackRowStep = 8;  ///< rows of a matrix are a multiple of this
inline constexpr int kRepackFields = 3;            ///< at most

/// `count` units of `unit` bytes each, from byte `offset` of a block on.
struct RepackField {
    std::size_t offset = 0;
    std::size_t unit = 0;
    std::size_t count = 0;

    constexpr std::size_t size() const { return unit * count; }
};

struct RepackLayout {
    Type type = GGML_TYPE_COUNT;
    std::size_t block_size = 0;
    std::int64_t block_elements = 0;
    std::array<RepackField, kRepackFields> fields{};  ///< those not used have no units

    /// Calls `body` with each field of block number `block` of a row, in the order of the
    /// micro-panel.
    template <class Body>
    void for_fields(std::int64_t block, Body body) const {
        std::size_t last = fields.size() - 1;
        while (fields[last].count == 0) --last;
        const bool is_first = block % 2 != 0 && fields[last].size() * kRepackRows % 64 != 0;
        if (is_first) body(fields[last]);
        for (std::size_t f = 0; f < last; ++f) body(fields[f]);
        if (!is_first) body(fields[last]);
    }
};

/// The layout of matrices of `type`; null where there is none.
const RepackLayout* repack_layout_of(Type type);

/// Rearranges `rows` rows of `blocks` blocks, which follow each other, as one micro-panel.
void repack_micro_panel(const RepackLayout& layout, const std::byte* from, std::int64_t rows,
                        std::int64_t blocks, std::byte* to);

/// Puts `count` blocks of one row of a micro-panel back together, from block `first` on. `rows` is
/// how many rows the micro-panel has.
void restore_blocks(const RepackLayout& layout, const std::byte* micro_panel, std::int64_t rows,
                    std::int64_t row, std::int64_t first, std::int64_t count, std::byte* to);

/// `count` blocks of a micro-panel of eight rows as one of sixteen, the rest of which is zero. The
/// first one is a block of even number.
void widen_micro_panel(const RepackLayout& layout, const std::byte* from, std::int64_t count,
                       std::byte* to);

}  // namespace heddle::cpu
