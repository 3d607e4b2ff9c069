#pragma once

#include <cstddef>
#include <cstdint>

namespace heddle::cpu {

/// A matrix of words and its transpose: word j of row i, at `from + i * from_stride`, becomes word
/// i of row j, at `to + j * to_stride`. Strides are in bytes.
struct Transposition {
    const std::byte* from;
    std::int64_t from_stride;
    std::byte* to;
    std::int64_t to_stride;
    std::int64_t rows, columns;  ///< of the source
};

/// Transposes words of 2 or 4 bytes, a cache line by a cache line at a time. `past_caches`: what is
/// written is not read soon and goes straight to memory, which pays where `to` begins a line and
/// rows are multiples of lines; `finish_past_caches` at the end.
void transpose_words_of_2(const Transposition& matrix, bool past_caches);
void transpose_words_of_4(const Transposition& matrix, bool past_caches);

}  // namespace heddle::cpu
