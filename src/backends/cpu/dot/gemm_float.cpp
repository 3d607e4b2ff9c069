#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/dot/gemm_float.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include <cstring>

#include "backends/cpu/dot/dot.hpp"
#include "backends/cpu/dot/lanes.hpp"
#include "backends/cpu/dot/micro_panel_lanes.hpp"

/// Micro-panels of f32, whatever the rows are: types are decoded when micro-panels are made.
HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if !HEDDLE_HAS_MICRO_PANELS

GemmKernel float_micro_panels(Type) { return {}; }

#else
namespace {

constexpr hn::ScalableTag<float> kLanes;
constexpr auto kVector = static_cast<std::int64_t>(hn::MaxLanes(kLanes));
constexpr std::int64_t kRows = 2 * kVector;

/// With so many columns packing is made up for. Blocks and short rows are multiplied more slowly
/// where they are than long rows of plain types; and short vectors turn halves into f32 again and
/// again.
constexpr std::int64_t kLeastLongColumns = kVector == 4 ? kMicroPanelWidth : 72;
constexpr std::int64_t kLeastColumns = kVector == 4 ? kMicroPanelWidth : kVector == 8 ? 14 : 20;

/// Long enough that rows come from memory in whole pages. With fewer rows and columns in registers
/// more of both is needed in the same time: then they have to come from near caches.
constexpr std::int64_t kDepth = kVector == 8 ? 512 : 1024;

// ---- making micro-panels ------------------------------------------------------------------------

/// Elements that are packed of all rows before going on: this much of a micro-panel stays in
/// L1.
template <class T>
constexpr auto kPacked = static_cast<std::int64_t>(256 / sizeof(T));

using Words = hn::ScalableTag<std::uint32_t>;

using WordVec = hn::Vec<Words>;

/// Elements of rows as vectors of f32, from words of all rows: an element each, or two.
HWY_INLINE void put_words(const float*, WordVec words, float* to) {
    hn::StoreU(hn::BitCast(kLanes, words), kLanes, to);
}

HWY_INLINE void put_words(const Bf16*, WordVec words, float* to) {
    const auto upper = hn::And(words, hn::Set(Words(), 0xffff0000u));
    hn::StoreU(hn::BitCast(kLanes, hn::ShiftLeft<16>(words)), kLanes, to);
    hn::StoreU(hn::BitCast(kLanes, upper), kLanes, to + kRows);
}

HWY_INLINE void put_words(const F16*, WordVec words, float* to) {
    const hn::Rebind<std::uint16_t, Words> bits;
    HWY_ALIGN F16 even[kVector], odd[kVector];
    hn::StoreU(hn::TruncateTo(bits, words), bits, &even[0].bits);
    hn::StoreU(hn::TruncateTo(bits, hn::ShiftRight<16>(words)), bits, &odd[0].bits);
    hn::StoreU(load_f32(kLanes, even), kLanes, to);
    hn::StoreU(load_f32(kLanes, odd), kLanes, to + kRows);
}

/// A whole vector of each row, turned into vectors with a word of every row. Nothing is loaded
/// twice: rows often lie a power of two apart, and drive each other out of L1.
HWY_INLINE void load_words(MicroPanelRows rows, WordVec (&to)[kVector]) {
    HWY_UNROLL(4)
    for (int first = 0; first < kVector; first += 4) {
        const auto row = [&](int r) HWY_ATTR {
            const auto* from = reinterpret_cast<const std::uint32_t*>(rows.row(first + r));
            return hn::LoadU(Words(), from);
        };
        WordVec four[4];
        transpose(Words(), row(0), row(1), row(2), row(3), four);
        HWY_UNROLL(4)
        for (int i = 0; i < 4; ++i) to[first + i] = four[i];
    }
    // Vector 4 * j + i has word 4 * b + i of rows 4 * j .. 4 * j + 3 in block b of four lanes: now
    // blocks change places with vectors.
#if HWY_MAX_BYTES == 32
    HWY_UNROLL(4)
    for (int i = 0; i < 4; ++i) {
        const WordVec low = to[i], high = to[4 + i];
        to[i] = hn::ConcatLowerLower(Words(), high, low);
        to[4 + i] = hn::ConcatUpperUpper(Words(), high, low);
    }
#elif HWY_MAX_BYTES == 64
    const auto even_blocks = [](WordVec a, WordVec b) HWY_ATTR {
        return hn::OddEvenBlocks(hn::SwapAdjacentBlocks(b), a);
    };
    const auto odd_blocks = [](WordVec a, WordVec b) HWY_ATTR {
        return hn::OddEvenBlocks(b, hn::SwapAdjacentBlocks(a));
    };
    HWY_UNROLL(4)
    for (int i = 0; i < 4; ++i) {
        const WordVec low02 = hn::ConcatLowerLower(Words(), to[8 + i], to[i]);
        const WordVec low13 = hn::ConcatLowerLower(Words(), to[12 + i], to[4 + i]);
        const WordVec high02 = hn::ConcatUpperUpper(Words(), to[8 + i], to[i]);
        const WordVec high13 = hn::ConcatUpperUpper(Words(), to[12 + i], to[4 + i]);
        to[i] = even_blocks(low02, low13);
        to[4 + i] = odd_blocks(low02, low13);
        to[8 + i] = even_blocks(high02, high13);
        to[12 + i] = odd_blocks(high02, high13);
    }
#endif
}

/// As many rows as a vector has lanes.
template <class T>
HWY_INLINE void pack_vector(MicroPanelRows rows, std::int64_t count, float* to) {
    constexpr auto kPerWord = static_cast<std::int64_t>(4 / sizeof(T));
    constexpr std::int64_t kStep = kVector * kPerWord;
    std::int64_t i = 0;
    for (; i + kStep <= count; i += kStep) {
        WordVec words[kVector];
        load_words(rows + static_cast<std::size_t>(i) * sizeof(T), words);
        HWY_UNROLL(16)
        for (std::int64_t w = 0; w < kVector; ++w) {
            put_words(static_cast<const T*>(nullptr), words[w], to + (i + w * kPerWord) * kRows);
        }
    }
    for (; i < count; ++i) {
        for (std::int64_t r = 0; r < kVector; ++r) {
            to[i * kRows + r] = to_float(reinterpret_cast<const T*>(rows.row(r))[i]);
        }
    }
}

/// `count` elements of up to a whole micro-panel of rows, no more than `kPacked`. What lies `next`
/// bytes further on is asked for meanwhile: with so many rows at once the CPU does not see
/// where this leads.
template <class T>
HWY_INLINE void pack_piece(MicroPanelRows rows, std::int64_t row_count, std::int64_t count,
                           std::ptrdiff_t next, float* to) {
    constexpr auto kBytes = static_cast<std::int64_t>(kPacked<T> * sizeof(T));
    for (std::int64_t r = 0; r < kRows; r += kVector) {
        const MicroPanelRows some{rows.row(r), rows.pitch};
        const std::int64_t there = row_count - r < kVector ? row_count - r : kVector;
        if (there == kVector) {
            for (std::int64_t i = 0; i < kVector; ++i) {
                for (std::int64_t at = 0; at < kBytes; at += 64) {
                    prefetch_l2(some.row(i) + next + at);
                }
            }
            pack_vector<T>(some, count, to + r);
            continue;
        }
        std::byte filled[kVector][kBytes] = {};  // rows that are not there are zeros
        for (std::int64_t i = 0; i < there; ++i) {
            std::memcpy(filled[i], some.row(i), static_cast<std::size_t>(count) * sizeof(T));
        }
        pack_vector<T>({filled[0], sizeof filled[0]}, count, to + r);
    }
}

template <class T>
void pack_plain(const MatrixView& view, std::int64_t begin, std::int64_t count, std::byte* to) {
    for (std::int64_t i = 0; i < count; i += kPacked<T>) {
        const std::int64_t length = count - i < kPacked<T> ? count - i : kPacked<T>;
        const auto at = static_cast<std::size_t>(begin + i) * sizeof(T);
        // More of the same rows, or the begin of the rows of the next micro-panel.
        const auto further = static_cast<std::ptrdiff_t>(kPacked<T> * sizeof(T));
        const std::ptrdiff_t next =
            i + kPacked<T> < count
                ? further
                : kRows * static_cast<std::ptrdiff_t>(view.pitch) - i / kPacked<T> * further;
        pack_piece<T>({view.rows + at, view.pitch}, view.count, length, next,
                      reinterpret_cast<float*>(to) + i * kRows);
    }
}

void pack_blocks(const MatrixView& view, std::int64_t begin, std::int64_t count, std::byte* to) {
    constexpr std::int64_t kAtOnce = 256;  // whole blocks of every type
    HWY_ALIGN float decoded[kVector][kAtOnce];
    auto* micro_panel = reinterpret_cast<float*>(to);
    const DecodeRow decode = decode_row_of(view.type);
    for (std::int64_t i = 0; i < count; i += kAtOnce) {
        const std::int64_t length = count - i < kAtOnce ? count - i : kAtOnce;
        const std::byte* from = view.rows + row_size(view.type, begin + i);
        for (std::int64_t r = 0; r < kRows; r += kVector) {
            for (std::int64_t k = 0; k < kVector; ++k) {
                if (r + k < view.count) {
                    decode(from + static_cast<std::size_t>(r + k) * view.pitch, decoded[k], length);
                } else {
                    std::memset(decoded[k], 0, sizeof decoded[k]);
                }
            }
            pack_vector<float>({reinterpret_cast<const std::byte*>(decoded[0]), sizeof decoded[0]},
                               length, micro_panel + i * kRows + r);
        }
    }
}

void put_floats(const void* from, std::int64_t count, std::byte* to, int column) {
    const auto* values = static_cast<const float*>(from);
    float* micro_panel = reinterpret_cast<float*>(to) + column;
    for (std::int64_t i = 0; i < count; ++i) micro_panel[i * kMicroPanelWidth] = values[i];
}

// ---- multiplying -------------------------------------------------------------------------------

template <int kColumns>
void multiply_columns(const float* a, const float* b, std::int64_t count, float* const* out,
                      bool add) {
    using V = hn::Vec<decltype(kLanes)>;
    V low[kColumns], high[kColumns];
    HWY_UNROLL(12)
    for (int c = 0; c < kColumns; ++c) low[c] = high[c] = hn::Zero(kLanes);
    if (add) fetch_results<kColumns>(out, kRows);
    for (std::int64_t i = 0; i < count; ++i, a += kRows, b += kMicroPanelWidth) {
        const V a0 = hn::LoadU(kLanes, a), a1 = hn::LoadU(kLanes, a + kVector);
        HWY_UNROLL(12)
        for (int c = 0; c < kColumns; ++c) {
            const V value = hn::Set(kLanes, b[c]);
            low[c] = hn::MulAdd(a0, value, low[c]);
            high[c] = hn::MulAdd(a1, value, high[c]);
        }
    }
    HWY_UNROLL(12)
    for (int c = 0; c < kColumns; ++c) {
        put_sum(kLanes, low[c], out[c], add);
        put_sum(kLanes, high[c], out[c] + kVector, add);
    }
}

void multiply(const std::byte* rows, const std::byte* columns, std::int64_t count, int width,
              float* const* out, bool add) {
    const auto* a = reinterpret_cast<const float*>(rows);
    const auto* b = reinterpret_cast<const float*>(columns);
    constexpr int kThird = kMicroPanelWidth / 3;
    if (width <= kThird) return multiply_columns<kThird>(a, b, count, out, add);
    if (width <= 2 * kThird) return multiply_columns<2 * kThird>(a, b, count, out, add);
    multiply_columns<kMicroPanelWidth>(a, b, count, out, add);
}

}  // namespace

GemmKernel float_micro_panels(Type type) {
    GemmKernel kernel{.rows = kRows,
                      .columns = kMicroPanelWidth,
                      .depth = kDepth,
                      .row_bytes = 32 * sizeof(float),
                      .column_bytes = 32 * sizeof(float),
                      .wants_floats = true,
                      .put_column = put_floats,
                      .multiply = multiply};
    kernel.least_columns = kLeastLongColumns;
    kernel.least_columns_of_short = kLeastColumns;
    if (type == GGML_TYPE_F32) {
        kernel.pack_rows = pack_plain<float>;
    } else if (type == GGML_TYPE_F16) {
        kernel.pack_rows = pack_plain<F16>;
    } else if (type == GGML_TYPE_BF16) {
        kernel.pack_rows = pack_plain<Bf16>;
    } else if (decode_row_of(type) != nullptr && dot_type_of(type) != GGML_TYPE_COUNT) {
        kernel.pack_rows = pack_blocks;
        kernel.least_columns = kLeastColumns;
    } else {
        return {};
    }
    return kernel;
}

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(float_micro_panels);

GemmKernel gemm_float_of(Type type) { return HWY_DYNAMIC_DISPATCH(float_micro_panels)(type); }

}  // namespace heddle::cpu
#endif
