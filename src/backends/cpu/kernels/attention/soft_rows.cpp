#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/attention/soft_rows.cpp"
#include "backends/cpu/kernels/attention/soft_rows.hpp"

#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include <cstddef>
#include <limits>

#include "backends/cpu/dot/lanes.hpp"
#include "backends/cpu/kernels/lanes_math.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

float finish(const ScoreRule& rule, float* scores, std::int64_t n) {
    const hn::ScalableTag<float> lanes;
    const auto step = static_cast<std::int64_t>(hn::Lanes(lanes));
    const bool capped = rule.softcap != 0;
    const float factor = capped ? rule.scale / rule.softcap : rule.scale;
    const auto* mask = reinterpret_cast<const F16*>(rule.mask);
    const auto never = hn::Set(lanes, kNever);
    auto most = never;
    std::int64_t j = 0;
    for (; j + step <= n; j += step) {
        auto z = hn::Mul(hn::LoadU(lanes, scores + j), hn::Set(lanes, factor));
        if (capped) z = hn::Mul(tanh_of(lanes, z), hn::Set(lanes, rule.softcap));
        if (mask != nullptr) {
            const auto m = load_f32(lanes, mask + j);
            z = hn::MulAdd(m, hn::Set(lanes, rule.slope), z);
            z = hn::IfThenElse(hn::Eq(m, never), never, z);  // whatever the key holds
        }
        hn::StoreU(z, lanes, scores + j);
        most = hn::Max(most, z);
    }
    float largest = hn::GetLane(hn::MaxOfLanes(lanes, most));
    for (; j < n; ++j) {
        float z = scores[j] * factor;
        if (capped) z = tanhf(z) * rule.softcap;
        if (mask != nullptr) {
            const float m = to_float(mask[j]);
            z = m == kNever ? kNever : z + rule.slope * m;
        }
        scores[j] = z;
        largest = z > largest ? z : largest;
    }
    return largest;
}

float exponentiate(float most, float* scores, std::int64_t n) {
    const hn::ScalableTag<float> lanes;
    const auto step = static_cast<std::int64_t>(hn::Lanes(lanes));
    const auto offset = hn::Set(lanes, most);
    auto sums = hn::Zero(lanes);
    std::int64_t j = 0;
    for (; j + step <= n; j += step) {
        const auto weight = exp_of(lanes, hn::Sub(hn::LoadU(lanes, scores + j), offset));
        hn::StoreU(weight, lanes, scores + j);
        sums = hn::Add(sums, weight);
    }
    float sum = hn::GetLane(hn::SumOfLanes(lanes, sums));
    for (; j < n; ++j) {
        scores[j] = expf(scores[j] - most);
        sum += scores[j];
    }
    return sum;
}

void scale_row(float factor, float* y, std::int64_t n) {
    const hn::ScalableTag<float> lanes;
    const auto step = static_cast<std::int64_t>(hn::Lanes(lanes));
    std::int64_t i = 0;
    for (; i + step <= n; i += step) {
        hn::StoreU(hn::Mul(hn::LoadU(lanes, y + i), hn::Set(lanes, factor)), lanes, y + i);
    }
    for (; i < n; ++i) y[i] *= factor;
}

template <class T>
void add_row(float weight, const T* x, float* y, std::int64_t n) {
    const hn::ScalableTag<float> lanes;
    const auto step = static_cast<std::int64_t>(hn::Lanes(lanes));
    const auto w = hn::Set(lanes, weight);
    std::int64_t i = 0;
    for (; i + step <= n; i += step) {
        hn::StoreU(hn::MulAdd(load_f32(lanes, x + i), w, hn::LoadU(lanes, y + i)), lanes, y + i);
    }
    for (; i < n; ++i) y[i] += to_float(x[i]) * weight;
}

/// Four rows at once, so that y is read and written a quarter as often.
template <class T>
void add_four_rows(const float* weights, const T* const* x, float* y, std::int64_t n) {
    const hn::ScalableTag<float> lanes;
    const auto step = static_cast<std::int64_t>(hn::Lanes(lanes));
    const auto w0 = hn::Set(lanes, weights[0]), w1 = hn::Set(lanes, weights[1]);
    const auto w2 = hn::Set(lanes, weights[2]), w3 = hn::Set(lanes, weights[3]);
    std::int64_t i = 0;
    for (; i + step <= n; i += step) {
        auto sum = hn::LoadU(lanes, y + i);
        sum = hn::MulAdd(load_f32(lanes, x[0] + i), w0, sum);
        sum = hn::MulAdd(load_f32(lanes, x[1] + i), w1, sum);
        sum = hn::MulAdd(load_f32(lanes, x[2] + i), w2, sum);
        hn::StoreU(hn::MulAdd(load_f32(lanes, x[3] + i), w3, sum), lanes, y + i);
    }
    for (; i < n; ++i) {
        for (int r = 0; r < 4; ++r) y[i] += to_float(x[r][i]) * weights[r];
    }
}

template <class T>
void add_rows(const float* weights, const void* rows, std::size_t pitch, std::int64_t count,
              float* y, std::int64_t n) {
    const auto* bytes = static_cast<const std::byte*>(rows);
    float pending[4];
    const T* x[4];
    int found = 0;
    for (std::int64_t j = 0; j < count; ++j) {
        if (weights[j] == 0) continue;  // a masked row may hold anything, even NaN
        pending[found] = weights[j];
        x[found++] = reinterpret_cast<const T*>(bytes + static_cast<std::size_t>(j) * pitch);
        if (found < 4) continue;
        add_four_rows(pending, x, y, n);
        found = 0;
    }
    for (int r = 0; r < found; ++r) add_row(pending[r], x[r], y, n);
}

}  // namespace

SoftRows soft_rows(Type type) {
    SoftRows rows{finish, exponentiate, scale_row, add_rows<float>};
    if (type == GGML_TYPE_F16) rows.add_rows = add_rows<F16>;
    if (type == GGML_TYPE_BF16) rows.add_rows = add_rows<Bf16>;
    return rows;
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(soft_rows);

SoftRows soft_rows_of(Type type) { return HWY_DYNAMIC_DISPATCH(soft_rows)(type); }

}  // namespace heddle::cpu
#endif
