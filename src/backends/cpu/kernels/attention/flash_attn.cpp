#include "ops/flash_attn.hpp"

#include <algorithm>

#include "backends/cpu/dot/multiplier.hpp"
#include "backends/cpu/kernel.hpp"
#include "backends/cpu/kernels/attention/flash_attn_rows.hpp"
#include "backends/cpu/kernels/attention/flash_attn_tiles.hpp"
#include "ggml/op_list.h"
#include "quant/codec.hpp"

namespace heddle::cpu {
namespace {

std::string_view objection(const Tensor& node) {
    const Tensor &q = *node.src[0], &k = *node.src[1], &v = *node.src[2];
    const Tensor *mask = node.src[3], *sinks = node.src[4];
    if (q.type != GGML_TYPE_F32) return "q is not f32";
    if (dot_type_of(k.type) == GGML_TYPE_COUNT)
        return "there is no dot product for the type of the keys";
    const bool is_plain =
        v.type == GGML_TYPE_F32 || v.type == GGML_TYPE_F16 || v.type == GGML_TYPE_BF16;
    if (!is_plain && quant::codec_of(v.type) == nullptr)
        return "values of a type that has no decoder";
    for (const Tensor* rows : {&q, &k, &v}) {
        if (rows->nb[0] != size_of(rows->type)) return "rows of q, k or v are not dense";
    }
    if (v.ne[1] != k.ne[1]) return "k and v differ in the number of rows";
    if (k.ne[2] == 0 || v.ne[2] == 0 || q.ne[2] % k.ne[2] != 0 || q.ne[2] % v.ne[2] != 0) {
        return "the heads of k or v do not divide those of q";
    }
    if (mask != nullptr) {
        if (mask->type != GGML_TYPE_F16 || mask->nb[0] != 2) return "the mask is not dense f16";
        if (mask->ne[0] < k.ne[1] || mask->ne[1] < q.ne[1]) return "the mask is too small";
    }
    if (sinks != nullptr && (sinks->type != GGML_TYPE_F32 || sinks->ne[0] < q.ne[2])) {
        return "sinks are not one f32 for each head";
    }
    if (node.type != GGML_TYPE_F32 || node.nb[0] != 4) return "the result is not dense f32";
    return {};
}

Demand demand(const Tensor& node, int threads) {
    const Attention rows(node, kRowsUnit);
    const double flops = 2.0 * static_cast<double>(row_count(rows.q)) *
                         static_cast<double>(rows.depth() + rows.width()) *
                         static_cast<double>(rows.keys());
    const auto demand_of = [&](const Attention& a, std::size_t size) {
        const int tasks = worthwhile_tasks(0, flops, a.pieces(), threads);
        return Demand{tasks, static_cast<std::size_t>(tasks) * size + Results::size(a)};
    };
    const Demand few = demand_of(rows, rows_size(rows));
    if (!is_worth_tiles(node)) return few;
    // Enough for either way: another instruction set may be chosen before the node runs.
    const Attention tiles(node, tile_unit_rows(node));
    const Demand many = demand_of(tiles, tiles_size(tiles));
    const auto tasks = static_cast<std::size_t>(many.tasks);
    return {many.tasks, std::max(many.scratch, tasks * rows_size(rows) + Results::size(rows))};
}

void run(const Tensor& node, const Task& task) {
    if (is_empty(node)) return;
    const bool tiled = is_worth_tiles(node) && has_tiles();
    Attention a(node, tiled ? tile_unit_rows(node) : kRowsUnit);
    if (!tiled) a.join_heads(task.count, kMostHeads);
    const std::size_t size = tiled ? tiles_size(a) : rows_size(a);
    const auto attend = tiled ? attend_tiles : attend_rows;
    std::byte* memory = task.scratch + static_cast<std::size_t>(task.index) * size;
    const Results results(a, task.scratch + static_cast<std::size_t>(task.count) * size);
    std::int64_t foreseen = -1;
    for (std::int64_t piece = task.take(); piece < a.pieces(); piece = task.take()) {
        const std::int64_t next = piece + task.count;  // where tasks are equally fast
        attend(a, {piece, next, piece == foreseen}, memory, results);
        foreseen = next;
    }
    results.join(task);
}

}  // namespace

extern const Kernel kFlashAttn{.name = "flash_attn",
                               .op = GGML_OP_FLASH_ATTN_EXT,
                               .objection = objection,
                               .run = run,
                               .demand = demand};

}  // namespace heddle::cpu
