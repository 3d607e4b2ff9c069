#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/movement/transpose.cpp"
#include "backends/cpu/kernels/movement/transpose.hpp"

#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

#if HWY_TARGET == HWY_SCALAR

template <class Word>
void transpose_words(const Transposition& matrix, bool) {
    for (std::int64_t i = 0; i < matrix.rows; ++i) {
        for (std::int64_t j = 0; j < matrix.columns; ++j) {
            constexpr std::int64_t size = sizeof(Word);
            std::memcpy(matrix.to + j * matrix.to_stride + i * size,
                        matrix.from + i * matrix.from_stride + j * size, sizeof(Word));
        }
    }
}

#else

constexpr std::int64_t kLine = 64;  // bytes
constexpr std::size_t kPart = 16;   // bytes that vectors of all sizes shuffle alike

// L1 keeps so many of the lines that lie a multiple of so many bytes apart.
constexpr std::int64_t kWays = 8, kSameSet = 4096;

/// Longer vectors than this take more shuffles for as many words.
constexpr std::size_t kVector = HWY_HAVE_SCALABLE || HWY_LANES(std::uint8_t) < 32 ? 16 : 32;

template <class Word>
using Words = hn::FixedTag<Word, kVector / sizeof(Word)>;

/// Words of two vectors interleaved, within parts.
template <class Word, class V>
HWY_INLINE void interleave(V a, V b, V& low, V& high) {
    const hn::DFromV<V> d;
    const hn::Repartition<Word, decltype(d)> words;
    const auto x = hn::BitCast(words, a), y = hn::BitCast(words, b);
    low = hn::BitCast(d, hn::InterleaveLower(words, x, y));
    high = hn::BitCast(d, hn::InterleaveUpper(words, x, y));
}

// Named one by one: compilers keep arrays of vectors in memory.

template <class V>
HWY_INLINE void transpose_parts(V& a, V& b, V& c, V& d) {
    V t0, t1, t2, t3;
    interleave<std::uint32_t>(a, b, t0, t1);
    interleave<std::uint32_t>(c, d, t2, t3);
    interleave<std::uint64_t>(t0, t2, a, b);
    interleave<std::uint64_t>(t1, t3, c, d);
}

template <class V>
HWY_INLINE void transpose_parts(V& a, V& b, V& c, V& d, V& e, V& f, V& g, V& h) {
    V t0, t1, t2, t3, t4, t5, t6, t7;
    interleave<std::uint16_t>(a, b, t0, t1);
    interleave<std::uint16_t>(c, d, t2, t3);
    interleave<std::uint16_t>(e, f, t4, t5);
    interleave<std::uint16_t>(g, h, t6, t7);
    transpose_parts(t0, t2, t4, t6);
    transpose_parts(t1, t3, t5, t7);
    a = t0, b = t2, c = t4, d = t6;
    e = t1, f = t3, g = t5, h = t7;
}

/// A micro-panel: the words of a part from each of as many rows as a vector has words.
template <class Word, bool kPastCaches>
struct MicroPanel {
    static constexpr std::int64_t kSize = sizeof(Word);
    static constexpr std::int64_t kRows = kVector / sizeof(Word);
    static constexpr std::int64_t kColumns = kPart / sizeof(Word);
    using Vector = hn::Vec<Words<Word> >;

    /// Row r, and where a vector has two parts the row that lies below the last column with it.
    static HWY_INLINE Vector load(const Transposition& at, std::int64_t r) {
        const Words<Word> d;
        const auto* row = reinterpret_cast<const Word*>(at.from + r * at.from_stride);
        if constexpr (kVector == kPart) {
            return hn::LoadU(d, row);
        } else {
            const auto* other =
                reinterpret_cast<const Word*>(at.from + (r + kColumns) * at.from_stride);
            return hn::ConcatUpperLower(d, hn::LoadDup128(d, other), hn::LoadDup128(d, row));
        }
    }

    static HWY_INLINE void store(Vector v, const Transposition& at, std::int64_t c) {
        auto* column = reinterpret_cast<Word*>(at.to + c * at.to_stride);
        if constexpr (kPastCaches) {
            hn::Stream(v, Words<Word>(), column);
        } else {
            hn::StoreU(v, Words<Word>(), column);
        }
    }

    static HWY_INLINE void transpose(const Transposition& at) {
        Vector a = load(at, 0), b = load(at, 1), c = load(at, 2), d = load(at, 3);
        if constexpr (kColumns == 4) {
            transpose_parts(a, b, c, d);
        } else {
            Vector e = load(at, 4), f = load(at, 5), g = load(at, 6), h = load(at, 7);
            transpose_parts(a, b, c, d, e, f, g, h);
            store(e, at, 4), store(f, at, 5), store(g, at, 6), store(h, at, 7);
        }
        store(a, at, 0), store(b, at, 1), store(c, at, 2), store(d, at, 3);
    }
};

/// Whole micro-panels: up to a line of words from each of as many rows as words fit a line. Strides
/// are often multiples of 4096 bytes, and lines that far apart soon drive each other out of the
/// cache: so lines of few rows are read to their end, or, `kByColumns`, lines of few columns
/// written.
template <class Word, bool kPastCaches, bool kByColumns = kPastCaches>
HWY_INLINE void transpose_side(const Transposition& at) {
    using S = MicroPanel<Word, kPastCaches>;
    const auto micro_panel = [&](std::int64_t i, std::int64_t j) HWY_ATTR {
        S::transpose({at.from + i * at.from_stride + j * S::kSize, at.from_stride,
                      at.to + j * at.to_stride + i * S::kSize, at.to_stride, S::kRows,
                      S::kColumns});
    };
    if constexpr (kByColumns) {
        for (std::int64_t j = 0; j < at.columns; j += S::kColumns) {
            for (std::int64_t i = 0; i < at.rows; i += S::kRows) micro_panel(i, j);
        }
    } else {
        for (std::int64_t i = 0; i < at.rows; i += S::kRows) {
            for (std::int64_t j = 0; j < at.columns; j += S::kColumns) micro_panel(i, j);
        }
    }
}

/// Whole lines, which are first brought to where they lie side by side.
template <class Word>
void transpose_gathered(const Transposition& at, bool past_caches) {
    alignas(kLine) std::byte rows[kLine / sizeof(Word)][kLine];
    for (std::int64_t i = 0; i < at.rows; ++i) {
        std::memcpy(rows[i], at.from + i * at.from_stride, kLine);
    }
    const Transposition gathered{rows[0], kLine, at.to, at.to_stride, at.rows, at.columns};
    if (past_caches) {
        transpose_side<Word, true>(gathered);
    } else {
        transpose_side<Word, false, true>(gathered);
    }
}

/// What is no whole number of micro-panels takes a detour through whole lines.
template <class Word>
void transpose_rest(const Transposition& at) {
    constexpr std::size_t lines = kLine / sizeof(Word);
    alignas(kLine) std::byte rows[lines][kLine] = {}, columns[lines][kLine];
    for (std::int64_t i = 0; i < at.rows; ++i) {
        std::memcpy(rows[i], at.from + i * at.from_stride,
                    static_cast<std::size_t>(at.columns) * sizeof(Word));
    }
    transpose_side<Word, false>({rows[0], kLine, columns[0], kLine, lines, lines});
    for (std::int64_t j = 0; j < at.columns; ++j) {
        std::memcpy(at.to + j * at.to_stride, columns[j],
                    static_cast<std::size_t>(at.rows) * sizeof(Word));
    }
}

template <class Word>
void transpose_words(const Transposition& matrix, bool past_caches) {
    constexpr std::int64_t size = sizeof(Word), lines = kLine / size;
    // Whether more lines are read from alternately than a cache has room for at such distances.
    const bool is_apart =
        MicroPanel<Word, false>::kRows > kWays && matrix.from_stride % kSameSet == 0;
    for (std::int64_t i = 0; i < matrix.rows; i += lines) {
        for (std::int64_t j = 0; j < matrix.columns; j += lines) {
            const Transposition at{matrix.from + i * matrix.from_stride + j * size,
                                   matrix.from_stride,
                                   matrix.to + j * matrix.to_stride + i * size,
                                   matrix.to_stride,
                                   std::min(lines, matrix.rows - i),
                                   std::min(lines, matrix.columns - j)};
            using S = MicroPanel<Word, false>;
            if (at.rows % S::kRows != 0 || at.columns % S::kColumns != 0) {
                transpose_rest<Word>(at);
            } else if (is_apart && at.columns == lines) {
                transpose_gathered<Word>(at, past_caches);
            } else if (past_caches) {
                transpose_side<Word, true>(at);
            } else {
                transpose_side<Word, false>(at);
            }
        }
    }
}

#endif

}  // namespace

void transpose_2(const Transposition& matrix, bool past_caches) {
    transpose_words<std::uint16_t>(matrix, past_caches);
}

void transpose_4(const Transposition& matrix, bool past_caches) {
    transpose_words<std::uint32_t>(matrix, past_caches);
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(transpose_2);
HWY_EXPORT(transpose_4);

namespace {

/// Whether what is written past the caches lies where vectors may.
bool is_aligned(const Transposition& matrix) {
    const auto bits =
        reinterpret_cast<std::uintptr_t>(matrix.to) | static_cast<std::uintptr_t>(matrix.to_stride);
    return bits % 32 == 0;
}

}  // namespace

void transpose_words_of_2(const Transposition& matrix, bool past_caches) {
    HWY_DYNAMIC_DISPATCH(transpose_2)(matrix, past_caches && is_aligned(matrix));
}

void transpose_words_of_4(const Transposition& matrix, bool past_caches) {
    HWY_DYNAMIC_DISPATCH(transpose_4)(matrix, past_caches && is_aligned(matrix));
}

}  // namespace heddle::cpu
#endif
