#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/attention/flash_attn_steps.cpp"
#include "backends/cpu/kernels/attention/flash_attn_steps.hpp"

#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include <cstring>
#include <limits>

#include "backends/cpu/dot/dot.hpp"
#include "backends/cpu/dot/micro_panel_lanes.hpp"
#include "backends/cpu/kernels/attention/flash_attn_lanes.hpp"
#include "backends/cpu/kernels/lanes_math.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if !HEDDLE_HAS_MICRO_PANELS

TileSteps steps() { return {}; }

#else
namespace {

constexpr hn::ScalableTag<float> kLanes;
using V = hn::Vec<decltype(kLanes)>;
constexpr auto kVector = static_cast<std::int64_t>(hn::MaxLanes(kLanes));
constexpr std::int64_t kMicroPanel = 2 * kVector;
static_assert(kMicroPanel <= kMostMicroPanelQueries && kTileKeys % (kMicroPanelWidth / 3) == 0);
static_assert(kTilePiece % (kMicroPanelWidth / 3) == 0);

constexpr float kNever = -std::numeric_limits<float>::infinity();

// ---- micro-panels and tiles ---------------------------------------------------------------------

template <class T>
void pack(const T* const* rows, std::int64_t count, float factor, float* micro_panel) {
    const hn::FixedTag<float, 4> four;
    const auto f = hn::Set(four, factor);
    for (std::int64_t r = 0; r < kMicroPanel; r += 4) {
        const T* const* row = rows + r;
        std::int64_t i = 0;
        for (; i + 4 <= count; i += 4) {
            store_transposed(four, hn::Mul(load_f32(four, row[0] + i), f),
                             hn::Mul(load_f32(four, row[1] + i), f),
                             hn::Mul(load_f32(four, row[2] + i), f),
                             hn::Mul(load_f32(four, row[3] + i), f),
                             micro_panel + i * kMicroPanel + r, kMicroPanel);
        }
        for (; i < count; ++i) {
            for (int k = 0; k < 4; ++k)
                micro_panel[i * kMicroPanel + r + k] = to_float(row[k][i]) * factor;
        }
    }
}

void pack_queries(const float* const* rows, std::int64_t count, float factor, float* micro_panel) {
    pack(rows, count, factor, micro_panel);
}

void pack_masks(const std::uint16_t* const* rows, std::int64_t count, float* micro_panel) {
    const F16* halves[kMicroPanel];
    for (int r = 0; r < kMicroPanel; ++r) halves[r] = reinterpret_cast<const F16*>(rows[r]);
    pack(halves, count, 1.0f, micro_panel);
}

/// One row of a tile; returns `strange`, made NaN by anything that is not finite.
template <class T>
HWY_INLINE V widen_row(const T* from, std::int64_t width, float* to, V strange) {
    const auto zero = hn::Zero(kLanes);
    for (std::int64_t begin = 0; begin < width; begin += kTilePiece) {
        const std::int64_t end = width - begin < kTilePiece ? width : begin + kTilePiece;
        std::int64_t i = begin;
        for (; i + kVector <= end; i += kVector) {
            const V values = load_element(kLanes, from, i);
            strange = hn::MulAdd(values, zero, strange);
            hn::StoreU(values, kLanes, to + i - begin);
        }
        for (; i < end; ++i) {
            to[i - begin] = element(from, i);
            strange = hn::MulAdd(hn::Set(kLanes, to[i - begin]), zero, strange);
        }
        to += kTileKeys * kTilePitch;
    }
    return strange;
}

/// In caches rows of a head are far apart, which no CPU foresees.
constexpr std::int64_t kAhead = 8;

HWY_INLINE void ask_for(const std::byte* row, std::size_t size) {
    for (std::size_t at = 0; at < size; at += 64) hwy::Prefetch(row + at);
}

template <class T>
bool widen_rows(const std::byte* rows, std::size_t pitch, std::int64_t count, std::int64_t width,
                std::size_t size, float* tile) {
    V strange = hn::Zero(kLanes);
    for (std::int64_t j = 0; j < count; ++j, rows += pitch) {
        if (j + kAhead < count) ask_for(rows + kAhead * static_cast<std::int64_t>(pitch), size);
        strange =
            widen_row(reinterpret_cast<const T*>(rows), width, tile + j * kTilePitch, strange);
    }
    return hn::AllFalse(kLanes, hn::IsNaN(strange));
}

bool widen(Type type, const std::byte* rows, std::size_t pitch, std::int64_t count,
           std::int64_t width, float* tile, float* spare) {
    const std::size_t size = row_size(type, width);
    if (type == GGML_TYPE_F32) return widen_rows<float>(rows, pitch, count, width, size, tile);
    if (type == GGML_TYPE_F16) return widen_rows<F16>(rows, pitch, count, width, size, tile);
    if (type == GGML_TYPE_BF16) return widen_rows<Bf16>(rows, pitch, count, width, size, tile);
    if (type == GGML_TYPE_Q8_0) return widen_rows<Q8Block>(rows, pitch, count, width, size, tile);
    const DecodeRow decode = decode_row_of(type);
    V strange = hn::Zero(kLanes);
    for (std::int64_t j = 0; j < count; ++j, rows += pitch) {
        decode(rows, spare, width);
        strange = widen_row<float>(spare, width, tile + j * kTilePitch, strange);
    }
    return hn::AllFalse(kLanes, hn::IsNaN(strange));
}

// ---- products ----------------------------------------------------------------------------------

/// out[c] = factor * out[c] + the sum of a[i] * b[i * kNext + c * kAside], for all i below `depth`;
/// a and out are micro-panels. Without factors out is not read.
template <int kColumns, int kVectors, std::int64_t kNext, std::int64_t kAside>
HWY_INLINE void multiply_columns(const float* a, const float* b, std::int64_t depth,
                                 const float* factors, float* out) {
    V sums[kColumns][kVectors];
    HWY_UNROLL(12)
    for (int c = 0; c < kColumns; ++c) {
        HWY_UNROLL(2)
        for (int v = 0; v < kVectors; ++v) {
            sums[c][v] = hn::Zero(kLanes);
            if (factors == nullptr) continue;
            sums[c][v] = hn::Mul(hn::LoadU(kLanes, out + c * kMicroPanel + v * kVector),
                                 hn::LoadU(kLanes, factors + v * kVector));
        }
    }
    for (std::int64_t i = 0; i < depth; ++i, a += kMicroPanel, b += kNext) {
        const V a0 = hn::LoadU(kLanes, a);
        const V a1 = kVectors > 1 ? hn::LoadU(kLanes, a + kVector) : a0;
        HWY_UNROLL(12)
        for (int c = 0; c < kColumns; ++c) {
            const V value = hn::Set(kLanes, b[c * kAside]);
            sums[c][0] = hn::MulAdd(a0, value, sums[c][0]);
            if (kVectors > 1) sums[c][kVectors - 1] = hn::MulAdd(a1, value, sums[c][kVectors - 1]);
        }
    }
    HWY_UNROLL(12)
    for (int c = 0; c < kColumns; ++c) {
        HWY_UNROLL(2)
        for (int v = 0; v < kVectors; ++v) {
            hn::StoreU(sums[c][v], kLanes, out + c * kMicroPanel + v * kVector);
        }
    }
}

/// The same for any number of columns; a few more are computed where that is simpler.
template <int kVectors, std::int64_t kNext, std::int64_t kAside>
void multiply(const float* a, const float* b, std::int64_t depth, std::int64_t columns,
              const float* factors, float* out) {
    constexpr int kThird = kMicroPanelWidth / 3;
    std::int64_t c = 0;
    for (; c + kMicroPanelWidth <= columns; c += kMicroPanelWidth) {
        multiply_columns<kMicroPanelWidth, kVectors, kNext, kAside>(a, b + c * kAside, depth,
                                                                    factors, out + c * kMicroPanel);
    }
    if (c + kThird < columns) {
        multiply_columns<2 * kThird, kVectors, kNext, kAside>(a, b + c * kAside, depth, factors,
                                                              out + c * kMicroPanel);
        c += 2 * kThird;
    }
    if (c < columns) {
        multiply_columns<kThird, kVectors, kNext, kAside>(a, b + c * kAside, depth, factors,
                                                          out + c * kMicroPanel);
    }
}

void score(const MicroPanelState& state, const float* queries, const float* keys,
           std::int64_t count, std::int64_t depth, float* scores) {
    HWY_ALIGN float ones[kMicroPanel];
    for (float& one : ones) one = 1;
    const auto product =
        state.vectors == 1 ? multiply<1, 1, kTilePitch> : multiply<2, 1, kTilePitch>;
    for (std::int64_t begin = 0; begin < depth; begin += kTilePiece) {
        const std::int64_t length = depth - begin < kTilePiece ? depth - begin : kTilePiece;
        product(queries + begin * kMicroPanel, keys, length, count, begin > 0 ? ones : nullptr,
                scores);
        keys += kTileKeys * kTilePitch;
    }
}

void add_values(const MicroPanelState& state, const float* weights, const float* values,
                std::int64_t count, std::int64_t width, float* sums) {
    const auto product =
        state.vectors == 1 ? multiply<1, kTilePitch, 1> : multiply<2, kTilePitch, 1>;
    for (std::int64_t begin = 0; begin < width; begin += kTilePiece) {
        const std::int64_t length = width - begin < kTilePiece ? width - begin : kTilePiece;
        product(weights, values, count, length, state.factor, sums + begin * kMicroPanel);
        values += kTileKeys * kTilePitch;
    }
}

void add_strange_values(const MicroPanelState& state, const float* weights, const float* values,
                        std::int64_t count, std::int64_t width, float* sums) {
    const auto zero = hn::Zero(kLanes);
    for (std::int64_t d = 0; d < width; ++d, sums += kMicroPanel) {
        const float* value = values + d / kTilePiece * kTileKeys * kTilePitch + d % kTilePiece;
        for (std::int64_t at = 0; at < kMicroPanel; at += kVector) {
            V sum = hn::Mul(hn::LoadU(kLanes, sums + at), hn::LoadU(kLanes, state.factor + at));
            for (std::int64_t j = 0; j < count; ++j) {
                const V weight = hn::LoadU(kLanes, weights + j * kMicroPanel + at);
                const V more = hn::MulAdd(weight, hn::Set(kLanes, value[j * kTilePitch]), sum);
                sum = hn::IfThenElse(hn::Eq(weight, zero), sum, more);
            }
            hn::StoreU(sum, kLanes, sums + at);
        }
    }
}

// ---- soft-max ----------------------------------------------------------------------------------

/// Caps and masks the scores of a vector of queries; returns the largest, or `most`.
V finish_scores(V most, V slope, float softcap, const float* masks, std::int64_t count,
                float* scores) {
    const auto never = hn::Set(kLanes, kNever);
    for (std::int64_t j = 0; j < count; ++j) {
        V z = hn::LoadU(kLanes, scores + j * kMicroPanel);
        if (softcap != 0) z = hn::Mul(tanh_of(kLanes, z), hn::Set(kLanes, softcap));
        if (masks != nullptr) {
            const V mask = hn::LoadU(kLanes, masks + j * kMicroPanel);
            z = hn::MulAdd(mask, slope, z);
            z = hn::IfThenElse(hn::Eq(mask, never), never, z);
        }
        hn::StoreU(z, kLanes, scores + j * kMicroPanel);
        most = hn::Max(most, z);
    }
    return most;
}

void weigh(MicroPanelState& state, float softcap, const float* masks, std::int64_t count,
           float* scores) {
    const auto never = hn::Set(kLanes, kNever);
    for (std::int64_t at = 0; at < state.vectors * kVector; at += kVector) {
        const V before = hn::LoadU(kLanes, state.most + at);
        const V most = finish_scores(before, hn::LoadU(kLanes, state.slope + at), softcap,
                                     masks != nullptr ? masks + at : nullptr, count, scores + at);
        // As long as no key counts any number will do, but infinity minus infinity would not.
        const V base = hn::IfThenElse(hn::Eq(most, never), hn::Zero(kLanes), most);
        const V factor = exp_of(kLanes, hn::Sub(before, base));
        V sum = hn::Zero(kLanes);
        for (std::int64_t j = 0; j < count; ++j) {
            const V z = hn::LoadU(kLanes, scores + at + j * kMicroPanel);
            const V weight = exp_of(kLanes, hn::Sub(z, base));
            hn::StoreU(weight, kLanes, scores + at + j * kMicroPanel);
            sum = hn::Add(sum, weight);
        }
        hn::StoreU(most, kLanes, state.most + at);
        hn::StoreU(factor, kLanes, state.factor + at);
        hn::StoreU(hn::MulAdd(hn::LoadU(kLanes, state.total + at), factor, sum), kLanes,
                   state.total + at);
    }
}

}  // namespace

TileSteps steps() {
    return {.queries = static_cast<int>(kMicroPanel),
            .pack_queries = pack_queries,
            .pack_masks = pack_masks,
            .widen = widen,
            .score = score,
            .weigh = weigh,
            .add_values = add_values,
            .add_strange_values = add_strange_values};
}

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(steps);

TileSteps tile_steps() { return HWY_DYNAMIC_DISPATCH(steps)(); }

}  // namespace heddle::cpu
#endif
