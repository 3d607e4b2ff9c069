#include "ggml/ops_layout.h"
#include "ggml/ops_train.h"
#include "shapes.hpp"

/// Functions of the caller: only the processor can call them, so graphs with them always cross
/// devices.
namespace heddle::fuzz {
namespace {

using Context = ggml_context;

const float* values_of(const Tensor* tensor) { return static_cast<const float*>(tensor->data); }

/// Calls `value(i)` for this thread's elements of `out`, all of which are dense.
template <class Function>
void each_element(Tensor* out, int thread, int threads, Function value) {
    auto* to = static_cast<float*>(out->data);
    const std::int64_t n = ggml_nelements(out);
    for (std::int64_t i = n * thread / threads; i < n * (thread + 1) / threads; ++i) {
        to[i] = value(i);
    }
}

void halve(Tensor* out, const Tensor* a, int thread, int threads, void*) {
    each_element(out, thread, threads,
                 [&](std::int64_t i) { return 0.5F * values_of(a)[i] + 0.1F; });
}
void blend(Tensor* out, const Tensor* a, const Tensor* b, int thread, int threads, void* by) {
    const float part = *static_cast<const float*>(by);
    each_element(out, thread, threads, [&](std::int64_t i) {
        return part * values_of(a)[i] + (1 - part) * values_of(b)[i];
    });
}
void mix(Tensor* out, const Tensor* a, const Tensor* b, const Tensor* c, int thread, int threads,
         void*) {
    each_element(out, thread, threads, [&](std::int64_t i) {
        return values_of(a)[i] - 0.5F * values_of(b)[i] + 0.25F * values_of(c)[i];
    });
}
void sum_sources(Tensor* out, int thread, int threads, void*) {
    each_element(out, thread, threads, [&](std::int64_t i) {
        float sum = 0;
        for (const Tensor* source : out->src) {
            if (source != nullptr) sum += values_of(source)[i];
        }
        return 0.4F * sum;
    });
}

int tasks(Dice& dice) { return dice.pick({1, 2, GGML_N_TASKS_MAX}); }

Tensor* custom1(Context* c, Operands x, Dice& dice) {
    Tensor* a = dense(c, x[0]);
    if (dice.one_in(2)) return ggml_map_custom1(c, a, halve, tasks(dice), nullptr);
    return ggml_map_custom1_inplace(c, ggml_dup(c, a), halve, tasks(dice), nullptr);
}
Tensor* custom2(Context* c, Operands x, Dice& dice) {
    static float part = 0.75F;
    Tensor* a = dense(c, x[0]);
    return ggml_map_custom2(c, a, shaped(c, x[1], a), blend, tasks(dice), &part);
}
Tensor* custom3(Context* c, Operands x, Dice& dice) {
    Tensor* a = dense(c, x[0]);
    return ggml_map_custom3(c, a, shaped(c, x[1], a), shaped(c, x[2], a), mix, tasks(dice),
                            nullptr);
}
Tensor* custom(Context* c, Operands x, Dice& dice) {
    Tensor* sources[] = {matrix(c, x[0], 16, 4), matrix(c, x[1], 16, 4), matrix(c, x[2], 16, 4)};
    for (const Tensor* each : sources) {
        if (each == nullptr) return nullptr;
    }
    return ggml_custom_4d(c, GGML_TYPE_F32, 16, 4, 1, 1, sources, dice.between(1, 3), sum_sources,
                          tasks(dice), nullptr);
}

constexpr OpRule kOps[] = {
    {"map_custom1", custom1},
    {"map_custom2", custom2},
    {"map_custom3", custom3},
    {"custom", custom},
};

}  // namespace

std::span<const OpRule> custom_ops() { return kOps; }

}  // namespace heddle::fuzz
