#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/recurrent/solve_tri.cpp"
#include "ops/solve_tri.hpp"

#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include "backends/cpu/kernels/vector_rows.hpp"

#ifndef HEDDLE_CPU_SOLVE_TRI_ONCE
#define HEDDLE_CPU_SOLVE_TRI_ONCE
namespace heddle::cpu {

/// Right-hand sides that are solved together.
inline constexpr std::int64_t kSolveColumns = 64;

/// One system and some of its right-hand sides, which lie next to each other in the rows of b and
/// x.
struct TriangularSystem {
    const float *a, *b;
    float* x;
    std::size_t a_pitch, b_pitch, x_pitch;  ///< bytes from row to row
    std::int64_t rows, columns;

    static const float* row(const float* from, std::size_t pitch, std::int64_t r) {
        return reinterpret_cast<const float*>(reinterpret_cast<const std::byte*>(from) +
                                              static_cast<std::size_t>(r) * pitch);
    }
    const float* a_row(std::int64_t r) const { return row(a, a_pitch, r); }
    const float* b_row(std::int64_t r) const { return row(b, b_pitch, r); }
    float* x_row(std::int64_t r) const { return const_cast<float*>(row(x, x_pitch, r)); }
};

}  // namespace heddle::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

/// Columns from `c` on of row r: what the rows above leave, over the diagonal.
template <class D>
HWY_INLINE void solve_lanes(D d, const TriangularSystem& system, std::int64_t r, std::int64_t c) {
    const float* a = system.a_row(r);
    auto rest = hn::LoadU(d, system.b_row(r) + c);
    for (std::int64_t t = 0; t < r; ++t) {
        rest = hn::NegMulAdd(hn::Set(d, a[t]), hn::LoadU(d, system.x_row(t) + c), rest);
    }
    hn::StoreU(hn::Div(rest, hn::Set(d, a[r])), d, system.x_row(r) + c);
}

}  // namespace

void solve_system(const TriangularSystem& system) {
    const Floats d;
    const std::int64_t step = lane_count(d);
    for (std::int64_t r = 0; r < system.rows; ++r) {
        std::int64_t c = 0;
        for (; c + step <= system.columns; c += step) solve_lanes(d, system, r, c);
        for (; c < system.columns; ++c) solve_lanes(hn::CappedTag<float, 1>(), system, r, c);
    }
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>

#include "backends/cpu/kernels/node_flops.hpp"
#include "ggml/op_list.h"

namespace heddle::cpu {
HWY_EXPORT(solve_system);
namespace {

std::string_view objection(const Tensor& node) {
    const Tensor* const all[] = {node.src[0], node.src[1], &node};
    for (const Tensor* t : all) {
        if (t->type != GGML_TYPE_F32) return "only f32";
        if (t->nb[0] != sizeof(float)) return "rows are not dense";
    }
    return {};
}

std::int64_t pieces_per_system(const Tensor& node) {
    return (node.ne[0] + kSolveColumns - 1) / kSolveColumns;
}

void run(const Tensor& node, const Task& task) {
    const Tensor &a = *node.src[0], &b = *node.src[1];
    const std::int64_t count = pieces_per_system(node);
    const Range pieces = task.share(count * node.ne[2] * node.ne[3]);
    for (std::int64_t piece = pieces.begin; piece < pieces.end; ++piece) {
        const std::int64_t column = piece % count * kSolveColumns;
        const std::int64_t i2 = piece / count % node.ne[2], i3 = piece / count / node.ne[2];
        HWY_DYNAMIC_DISPATCH(solve_system)
        ({.a = at<const float>(a, 0, 0, i2, i3),
          .b = at<const float>(b, column, 0, i2, i3),
          .x = at<float>(node, column, 0, i2, i3),
          .a_pitch = a.nb[1],
          .b_pitch = b.nb[1],
          .x_pitch = node.nb[1],
          .rows = node.ne[1],
          .columns = std::min(kSolveColumns, node.ne[0] - column)});
    }
}

Demand demand(const Tensor& node, int threads) {
    const std::int64_t pieces = pieces_per_system(node) * node.ne[2] * node.ne[3];
    return flops_demand<ops::SolveTri>(node, pieces, threads);
}

}  // namespace

extern const Kernel kSolveTri{.name = "solve_tri_f32",
                              .op = GGML_OP_SOLVE_TRI,
                              .objection = objection,
                              .run = run,
                              .demand = demand};

}  // namespace heddle::cpu
#endif
