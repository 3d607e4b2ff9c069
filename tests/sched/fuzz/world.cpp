#include "world.hpp"

#include "core/error.hpp"
#include "heddle/heddle.h"
#include "heddle/sim.h"
#include "ops/custom.hpp"
#include "ops/view_op.hpp"
#ifdef HEDDLE_FUZZ_WITH_BLAS
#include "ggml-blas.h"
#include "ggml/op_list.h"
#endif

namespace heddle::fuzz {
namespace {

/// "all" without a few, or only a few.
std::string some_ops(Dice& dice) {
    const bool most = dice.one_in(2);
    std::string words = most ? "all" : "MUL_MAT";
    for (int op = GGML_OP_NONE + 1; op < GGML_OP_COUNT; ++op) {
        const auto which = static_cast<ggml_op>(op);
        if (is_view_op(which) || ops::runs_callers_function(which) || !dice.one_in(3)) continue;
        words += text(most ? ",-" : ",", ggml_op_name(which));
    }
    return words;
}

}  // namespace

World::World(std::span<const std::string> others) {
    const auto configure = reinterpret_cast<heddle_backend_configure_t>(
        ggml_backend_reg_get_proc_address(ggml_backend_sim_reg(), "heddle_backend_configure"));
    Dice dice(1);
    constexpr int kKinds = 10, kDevicesOfAKind = 2;
    for (int i = 0; i < kKinds; ++i) {
        const std::string ops = i < 3 ? "all" : some_ops(dice);
        const std::string parameters = text("devices=", kDevicesOfAKind, ",mem=256M,offload=1",
                                            ",pinned=", i % 2, ",ops=", ops);
        if (!configure(parameters.c_str())) continue;
        for (std::size_t j = 0; j < kDevicesOfAKind; ++j) {
            devices_.push_back(ggml_backend_reg_dev_get(ggml_backend_sim_reg(), j));
            kinds_.push_back(parameters);
        }
    }
    simulated_ = static_cast<int>(devices_.size());
    if (!others.empty()) ggml_backend_load_all();
    for (const std::string& name : others) {
        ggml_backend_dev_t device = ggml_backend_dev_by_name(name.c_str());
        if (device == nullptr) {
            missing_ = name;
            continue;
        }
        devices_.push_back(device);
        kinds_.push_back(name);
    }
}

Scope World::scope() const {
    return {.devices = static_cast<int>(devices_.size()),
            .exact_devices = simulated_,
            .blas = blas() != nullptr,
            .faults = true};
}

ggml_backend_dev_t World::blas() {
#ifdef HEDDLE_FUZZ_WITH_BLAS
    return ggml_backend_reg_dev_get(ggml_backend_blas_reg(), 0);
#else
    return nullptr;
#endif
}

}  // namespace heddle::fuzz
