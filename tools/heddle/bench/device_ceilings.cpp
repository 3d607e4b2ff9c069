#include "bench/device_ceilings.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "bench/measure.hpp"
#include "bench/workload.hpp"
#include "ggml/ops_layout.h"
#include "ggml/ops_reduce.h"

namespace heddle::tool::bench {
namespace {

struct Speed {
    double flops = 0, bytes = 0;
};

/// Per second, at best.
Result<Speed> speed_of(const Case& what, const Target& target, bool quick) {
    HEDDLE_TRY_ASSIGN(Workload workload, Workload::make(what, target, 0));
    if (workload.is_declined()) return Speed{};
    HEDDLE_TRY_ASSIGN(const Seconds seconds,
                      measure(Effort::of(quick), [&] { return workload.run(); }));
    const double once = seconds.best / workload.times();
    return Speed{workload.work().flops / once, workload.work().bytes / once};
}

}  // namespace

Result<double> DeviceCeilings::copy(std::size_t bytes) {
    // Sizes that hardly differ are the same: a power of two, or one and a half.
    const std::size_t power = std::bit_floor(std::clamp(bytes, std::size_t{4096}, memory_bytes()));
    const bool is_more = bytes >= power / 2 * 3 && power < memory_bytes();
    const std::size_t rounded = is_more ? power / 2 * 3 : power;
    if (const auto known = copies_.find(rounded); known != copies_.end()) return known->second;
    const auto count = static_cast<std::int64_t>(rounded / 2 / sizeof(float));
    const Case what{.op = "DUP",
                    .type = "f32",
                    .main_type = GGML_TYPE_F32,
                    .shape = "",
                    .build = [=](Inputs& inputs) {
                        return ggml_dup(inputs.context(), inputs.input(GGML_TYPE_F32, {count}));
                    }};
    HEDDLE_TRY_ASSIGN(const Speed speed, speed_of(what, target_, quick_));
    return copies_[rounded] = speed.bytes;
}

Result<double> DeviceCeilings::product() {
    // Small products leave part of a large device idle, large ones take a slow one too long.
    constexpr std::int64_t kLargest = 8192;
    constexpr double kLongEnough = 1e-3;
    for (std::int64_t size = 512; !product_; size *= 2) {
        const Case what{.op = "MUL_MAT",
                        .type = "f16",
                        .main_type = GGML_TYPE_F16,
                        .shape = "",
                        .build = [=](Inputs& inputs) {
                            return ggml_mul_mat(inputs.context(),
                                                inputs.weights(GGML_TYPE_F16, {size, size}),
                                                inputs.input(GGML_TYPE_F32, {size, size}));
                        }};
        HEDDLE_TRY_ASSIGN(const Speed speed, speed_of(what, target_, quick_));
        const double seconds = 2 * std::pow(static_cast<double>(size), 3) / speed.flops;
        if (size >= kLargest || !(seconds < kLongEnough)) product_ = speed.flops;
    }
    return *product_;
}

}  // namespace heddle::tool::bench
