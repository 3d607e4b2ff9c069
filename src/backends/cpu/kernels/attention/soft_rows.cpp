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
    const PowerConstants c = PowerConstants::held();
    const auto offset = hn::Set(lanes, most), log2e = hn::Set(lanes, c.log2e);
    auto sums = hn::Zero(lanes);
    std::int64_t j = 0;
    for (; j + step <= n; j += step) {
        const auto z = hn::Sub(hn::LoadU(lanes, scores + j), offset);
        const auto weight = exp2_of(lanes, hn::Mul(z, log2e), c);
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

}  // namespace

SoftRows rows_steps() { return {finish, exponentiate, scale_row}; }

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(rows_steps);

SoftRows soft_rows() { return HWY_DYNAMIC_DISPATCH(rows_steps)(); }

}  // namespace heddle::cpu
#endif
