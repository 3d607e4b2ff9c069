#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/dot/float_strips.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include <cstring>

#include "backends/cpu/dot/dot.hpp"
#include "backends/cpu/dot/lanes.hpp"
#include "backends/cpu/dot/strip_lanes.hpp"

/// Strips of f32, whatever the rows are: types are decoded when strips are made.
HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if !HEDDLE_HAS_STRIPS

StripKernel float_strips(Type) { return {}; }

#else
namespace {

constexpr hn::ScalableTag<float> kLanes;
constexpr auto kVector = static_cast<std::int64_t>(hn::MaxLanes(kLanes));
constexpr std::int64_t kRows = 2 * kVector;

/// Long enough that rows come from memory in whole pages.
constexpr std::int64_t kDepth = 1024;

// ---- making strips -----------------------------------------------------------------------------

/// Elements that are packed of all rows before going on: this much of a strip stays in the first
/// cache.
template <class T>
constexpr auto kPacked = static_cast<std::int64_t>(256 / sizeof(T));

/// Four rows that lie `pitch` bytes apart. What lies `next` bytes further on is asked for
/// meanwhile: with so many rows at once the processor does not see where this leads.
template <class T>
HWY_INLINE void pack_four(const std::byte* rows, std::size_t pitch, std::int64_t count,
                          std::ptrdiff_t next, float* to) {
    constexpr auto kLine = static_cast<std::int64_t>(64 / sizeof(T));
    const hn::FixedTag<float, 4> four;
    const T* row[4];
    for (std::size_t r = 0; r < 4; ++r) row[r] = reinterpret_cast<const T*>(rows + r * pitch);
    for (std::int64_t i = 0; i < kPacked<T>; i += kLine) {
        for (int r = 0; r < 4; ++r) {
            fetch_rows(reinterpret_cast<const std::byte*>(row[r] + i) + next);
        }
    }
    std::int64_t i = 0;
    for (; i + 4 <= count; i += 4) {
        store_transposed(four, load_f32(four, row[0] + i), load_f32(four, row[1] + i),
                         load_f32(four, row[2] + i), load_f32(four, row[3] + i), to + i * kRows,
                         kRows);
    }
    for (; i < count; ++i) {
        for (int r = 0; r < 4; ++r) to[i * kRows + r] = to_float(row[r][i]);
    }
}

template <class T>
HWY_INLINE void pack_one(const std::byte* row, std::int64_t count, float* to) {
    const T* from = reinterpret_cast<const T*>(row);
    for (std::int64_t i = 0; i < count; ++i) to[i * kRows] = to_float(from[i]);
}

HWY_INLINE void pack_nothing(std::int64_t rows, std::int64_t count, float* to) {
    for (std::int64_t i = 0; i < count; ++i) {
        std::memset(to + i * kRows, 0, static_cast<std::size_t>(rows) * sizeof(float));
    }
}

template <class T>
void pack_plain(const Panel& panel, std::int64_t begin, std::int64_t count, std::byte* to) {
    for (std::int64_t i = 0; i < count; i += kPacked<T>) {
        const std::int64_t length = count - i < kPacked<T> ? count - i : kPacked<T>;
        float* strip = reinterpret_cast<float*>(to) + i * kRows;
        const std::byte* row = panel.rows + (begin + i) * static_cast<std::int64_t>(sizeof(T));
        // More of the same rows, or the begin of the rows of the next strip.
        const auto further = static_cast<std::ptrdiff_t>(kPacked<T> * sizeof(T));
        const std::ptrdiff_t next =
            i + kPacked<T> < count
                ? further
                : kRows * static_cast<std::ptrdiff_t>(panel.pitch) - i / kPacked<T> * further;
        std::int64_t r = 0;
        for (; r + 4 <= panel.count; r += 4, row += 4 * panel.pitch) {
            pack_four<T>(row, panel.pitch, length, next, strip + r);
        }
        for (; r < panel.count; ++r, row += panel.pitch) pack_one<T>(row, length, strip + r);
        if (r < kRows) pack_nothing(kRows - r, length, strip + r);
    }
}

void pack_blocks(const Panel& panel, std::int64_t begin, std::int64_t count, std::byte* to) {
    constexpr std::int64_t kAtOnce = 256;  // whole blocks of every type
    HWY_ALIGN float decoded[4][kAtOnce];
    auto* strip = reinterpret_cast<float*>(to);
    const DecodeRow decode = decode_row_of(panel.type);
    for (std::int64_t i = 0; i < count; i += kAtOnce) {
        const std::int64_t length = count - i < kAtOnce ? count - i : kAtOnce;
        const std::byte* from = panel.rows + row_size(panel.type, begin + i);
        for (std::int64_t r = 0; r < kRows; r += 4) {
            for (std::int64_t k = 0; k < 4; ++k) {
                if (r + k < panel.count) {
                    decode(from + static_cast<std::size_t>(r + k) * panel.pitch, decoded[k],
                           length);
                } else {
                    std::memset(decoded[k], 0, sizeof decoded[k]);
                }
            }
            pack_four<float>(reinterpret_cast<const std::byte*>(decoded[0]), sizeof decoded[0],
                             length, 0, strip + i * kRows + r);
        }
    }
}

void put_floats(const void* from, std::int64_t count, std::byte* to, int column) {
    const auto* values = static_cast<const float*>(from);
    float* strip = reinterpret_cast<float*>(to) + column;
    for (std::int64_t i = 0; i < count; ++i) strip[i * kStripWidth] = values[i];
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
    for (std::int64_t i = 0; i < count; ++i, a += kRows, b += kStripWidth) {
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
    constexpr int kThird = kStripWidth / 3;
    if (width <= kThird) return multiply_columns<kThird>(a, b, count, out, add);
    if (width <= 2 * kThird) return multiply_columns<2 * kThird>(a, b, count, out, add);
    multiply_columns<kStripWidth>(a, b, count, out, add);
}

}  // namespace

StripKernel float_strips(Type type) {
    StripKernel kernel{.rows = kRows,
                       .columns = kStripWidth,
                       .depth = kDepth,
                       .row_bytes = 32 * sizeof(float),
                       .column_bytes = 32 * sizeof(float),
                       .wants_floats = true,
                       .put_column = put_floats,
                       .multiply = multiply};
    kernel.least_columns = kStripWidth;
    if (type == GGML_TYPE_F32) {
        kernel.pack_rows = pack_plain<float>;
    } else if (type == GGML_TYPE_F16) {
        kernel.pack_rows = pack_plain<F16>;
    } else if (type == GGML_TYPE_BF16) {
        kernel.pack_rows = pack_plain<Bf16>;
    } else if (decode_row_of(type) != nullptr && dot_type_of(type) != GGML_TYPE_COUNT) {
        kernel.pack_rows = pack_blocks;
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
HWY_EXPORT(float_strips);

StripKernel float_strips_of(Type type) { return HWY_DYNAMIC_DISPATCH(float_strips)(type); }

}  // namespace heddle::cpu
#endif
