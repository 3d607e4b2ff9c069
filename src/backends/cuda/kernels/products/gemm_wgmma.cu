#include <algorithm>
#include <array>
#include <cstdint>

#include "backends/cuda/formats/dot_operand.cuh"
#include "backends/cuda/kernels/products/gemm_wgmma.hpp"
#include "backends/cuda/kernels/products/gemm_wgmma_launch.cuh"
#include "backends/cuda/kernels/products/operands.cuh"
#include "backends/cuda/kernels/products/tiled_activations.hpp"
#include "ggml/op_list.h"

/// Rows for products of many columns on Hopper. Other devices get `gemm_mma`.
namespace heddle::cuda {
namespace {

LaunchWgmma find_launch(ggml_type type) {
    for (const auto find : {find_wgmma_simple, find_wgmma_k, find_wgmma_grid, find_wgmma_float})
        if (const LaunchWgmma found = find(type); found != nullptr) return found;
    return nullptr;
}

WeightOrder order_of(ggml_type type) {
    WeightOrder order = WeightOrder::plain;
    dispatch_format(type, [&](auto format) {
        if (format.block_elements > 1) order = WeightFragments<decltype(format)>::kOrder;
    });
    return order;
}

std::int64_t column_count(const Tensor& node) { return node.ne[1] * node.ne[2] * node.ne[3]; }

int tile_for(std::int64_t columns) { return columns <= 32 ? 32 : columns <= 96 ? 96 : 128; }

/// In how many parts the depth is computed, so that all multiprocessors have something to do.
int parts_for(std::int64_t columns, std::int64_t row_tiles, std::int64_t chunks,
              const DeviceFacts& device) {
    constexpr std::int64_t kLeastChunks = 2;
    const int tile = tile_for(columns);
    const std::int64_t tiles = row_tiles * ((columns + tile - 1) / tile);
    const std::int64_t blocks = std::int64_t{wgmma_blocks(tile)} * device.multiprocessors;
    const std::int64_t most = std::min(blocks / tiles, chunks / kLeastChunks);
    return static_cast<int>(std::max<std::int64_t>(most, 1));
}

/// Bytes of partial results at most: a tile for each block.
std::size_t part_bytes(std::int64_t columns, const DeviceFacts& device) {
    const int tile = tile_for(columns);
    const auto tiles = static_cast<std::size_t>(wgmma_blocks(tile) * device.multiprocessors);
    return tiles * (128 * static_cast<std::size_t>(tile) * sizeof(float) + 16);
}

WgmmaArguments arguments_of(const TiledActivations& layout, std::int64_t columns,
                            const std::byte* acts) {
    WgmmaArguments a{};
    a.acts = reinterpret_cast<const std::uint16_t*>(acts);
    a.factors = reinterpret_cast<const float*>(acts + layout.factors_at());
    a.padded_columns = layout.columns;
    a.columns = static_cast<int>(columns);
    a.chunks = a.part_chunks = static_cast<int>(layout.depth / TiledActivations::kChunk);
    a.parts = 1;
    return a;
}

/// Why tiles of the weights cannot be read.
std::string_view tile_objection(const Tensor& node) {
    const Tensor& a = *node.src[0];
    if (find_launch(a.type) == nullptr) return "weights are neither blocks nor 16-bit floats";
    if (a.ne[0] == 0) return "an operand is empty";
    if (!has_aligned_strides(a, 16))
        return "rows of the weights do not begin at multiples of 16 bytes";
    constexpr std::int64_t kMost = INT32_MAX / 2;
    if (static_cast<std::int64_t>(a.nb[1]) > kMost || a.ne[1] > kMost ||
        column_count(node) > kMost / 2)
        return "more rows, columns or bytes of a row than 32 bits count";
    return {};
}

/// For the kernel behind the one that makes activations.
Launch after_activations(const Launch& launch) {
    Launch next = launch;
    next.is_chained = true;
    return next;
}

// ---- one matrix of weights ---------------------------------------------------------------------

std::string_view mul_mat_objection(const Tensor& node) {
    if (const auto reason = wgmma_objection(node); !reason.empty()) return reason;
    const Tensor& a = *node.src[0];
    if (a.ne[2] != 1 || a.ne[3] != 1) return "there are several matrices of weights";
    return {};
}

TiledActivations layout_of(const Tensor& node) {
    const std::int64_t columns = column_count(node);
    return {columns, node.src[0]->ne[0], tile_for(columns)};
}

std::size_t mul_mat_scratch(const Tensor& node, const DeviceFacts& device) {
    return std::max(wgmma_products_scratch(node, device), kGemmMma.scratch(node, device));
}

void launch_mul_mat(const Tensor& node, const Launch& launch) {
    const std::array nodes{&node};
    if (is_empty(node) || !can_wgmma(node, launch.device) ||
        !launch_wgmma_products(nodes, {.rows = node.src[1]}, nullptr, launch))
        kGemmMma.launch(node, launch);
}

/// Columns from which on tiles, which are mostly empty then, take less time than the rows that
/// multiply a column after the other: 36 us instead of 48 for 3, whatever the number, where a
/// single column takes 22 and two take 30 (28672 x 4096, Q4_0).
constexpr std::int64_t kLeastColumns = 3;

std::string_view few_objection(const Tensor& node) {
    if (const auto reason = mul_mat_objection(node); !reason.empty()) return reason;
    if (column_count(node) > kMostColumns) return "more than 8 columns";
    if (column_count(node) < kLeastColumns && kGemvInt8.objection(node).empty())
        return "fewer than 3 columns";
    return {};
}

void launch_few(const Tensor& node, const Launch& launch) {
    const std::array nodes{&node};
    if (!is_empty(node) && can_wgmma(node, launch.device) &&
        launch_wgmma_products(nodes, {.rows = node.src[1]}, nullptr, launch))
        return;
    const Kernel& gemv = kGemvInt8.objection(node).empty() ? kGemvInt8 : kGemvDecode;
    gemv.launch(node, launch);
}

/// Products whose results are there in parts.
struct PartialResults {
    struct One {
        float* y;
        const float* parts;
        std::int64_t size;  ///< of a part
    };
    One of[WgmmaArguments::kMost];
    int count, parts;
    std::int64_t stride;
};

/// Adds parts in order. A product for each row of the grid.
__global__ void __launch_bounds__(256) add_parts(PartialResults results) {
    const auto [y, parts, size] = results.of[blockIdx.y];
    const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
    for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
         i < size; i += step) {
        float sum = parts[i];
        for (int part = 1; part < results.parts; ++part) sum += parts[part * results.stride + i];
        y[i] = sum;
    }
}

/// Products of weights of one type, whose activations are there.
bool launch_one_type(std::span<const Tensor* const> nodes, const TiledActivations& layout,
                     const std::byte* acts, const Tensor* sum, const Launch& launch) {
    const std::int64_t columns = column_count(*nodes[0]);
    WgmmaArguments a = arguments_of(layout, columns, acts);
    PartialResults results{};
    std::int64_t row_tiles = 0;
    for (const Tensor* node : nodes) row_tiles += (node->ne[0] + 127) / 128;
    a.parts = parts_for(columns, row_tiles, a.chunks, launch.device);
    a.part_chunks = (a.chunks + a.parts - 1) / a.parts;
    a.parts = (a.chunks + a.part_chunks - 1) / a.part_chunks;
    auto* parts = reinterpret_cast<float*>(launch.scratch + layout.bytes());
    for (const Tensor* node : nodes) {
        const Tensor& result = sum != nullptr ? *sum : *node;
        const std::int64_t size = node->ne[0] * columns;
        results.of[results.count] = {static_cast<float*>(result.data), parts, size};
        WgmmaProduct& product = a.products[results.count++];
        product.y = a.parts > 1 ? parts : static_cast<float*>(result.data);
        if (sum != nullptr)
            product.addend = static_cast<const float*>(sum->src[sum->src[0] == node ? 1 : 0]->data);
        parts += (size + 3) / 4 * 4;  // copies begin at multiples of 16 bytes
    }
    a.part_stride = results.stride =
        parts - reinterpret_cast<float*>(launch.scratch + layout.bytes());
    results.parts = a.parts;
    if (!find_launch(nodes[0]->src[0]->type)(a, nodes, tile_for(columns), launch)) return false;
    if (a.parts > 1)
        add_parts<<<dim3(2U * static_cast<unsigned>(launch.device.multiprocessors),
                         static_cast<unsigned>(results.count)),
                    256, 0, launch.stream>>>(results);
    return true;
}

// ---- a gated unit ------------------------------------------------------------------------------

/// Whether the driver describes the weights: nothing else can read activations in tiles.
bool can_be_described(const Tensor& w) {
    CUtensorMap map;
    return make_tensor_map(raw_rows(w, 8, 8), map);
}

GatedActivations gated_layout(const Tensor& glu, const Tensor& next) {
    return {{column_count(glu), next.src[0]->ne[0], tile_for(column_count(glu))}};
}

// ---- grouped by expert -------------------------------------------------------------------------

struct ExpertLayout {
    std::int64_t experts, pairs;
    int tile;

    explicit ExpertLayout(const Tensor& node)
        : experts(node.src[0]->ne[2]), pairs(node.ne[1] * node.ne[2]) {
        const std::int64_t mean = pairs / (experts > 0 ? experts : 1);
        tile = mean <= 24 ? 32 : mean <= 80 ? 96 : 128;
    }
    ExpertTiles tiles(std::byte* at) const { return {at, experts, pairs, tile}; }
    TiledActivations acts(const Tensor& node) const {
        return {tiles(nullptr).columns, node.src[0]->ne[0], tile};
    }
};

std::string_view mul_mat_id_objection(const Tensor& node) {
    if (const auto reason = product_objection(node); !reason.empty()) return reason;
    if (const auto reason = tile_objection(node); !reason.empty()) return reason;
    return node.src[0]->ne[3] != 1 ? "experts have several matrices" : std::string_view{};
}

std::size_t mul_mat_id_scratch(const Tensor& node, const DeviceFacts& device) {
    const ExpertLayout layout(node);
    const std::size_t own = layout.acts(node).bytes() + layout.tiles(nullptr).bytes() +
                            ExpertGroups::bytes(layout.experts, layout.pairs);
    return std::max(own, kMulMatIdMma.scratch(node, device));
}

void launch_mul_mat_id(const Tensor& node, const Launch& launch) {
    if (is_empty(node) || !can_wgmma(node, launch.device)) return kMulMatIdMma.launch(node, launch);
    const ExpertLayout layout(node);
    const TiledActivations acts = layout.acts(node);
    const ExpertTiles tiles = layout.tiles(launch.scratch + acts.bytes());
    const ExpertGroups groups(launch.scratch + acts.bytes() + tiles.bytes(), layout.experts,
                              layout.pairs);
    group_by_expert(node, groups, launch);
    make_expert_tiles(groups, tiles, layout.tile, launch);
    const ggml_type type = node.src[0]->type;
    convert_to_tiles({.rows = node.src[1], .columns = {tiles.sources, node.ne[1]}}, type,
                     order_of(type), acts, launch.scratch, launch);
    WgmmaArguments a = arguments_of(acts, acts.columns, launch.scratch);
    a.expert_tiles = tiles.tiles;
    a.tile_count = tiles.count;
    a.sources = tiles.sources;
    const std::array nodes{&node};
    if (!find_launch(type)(a, nodes, layout.tile, after_activations(launch)))
        kMulMatIdMma.launch(node, launch);
}

}  // namespace

std::string_view wgmma_objection(const Tensor& node) {
    if (const auto reason = product_objection(node); !reason.empty()) return reason;
    if (block_size(node.src[0]->type) == 1) return "weights are no blocks";
    return tile_objection(node);
}

bool can_wgmma(const Tensor& node, const DeviceFacts& device) {
    return has_wgmma(device) && is_aligned(node.src[0]->data, 16) && is_aligned(node.data, 16);
}

std::size_t wgmma_products_scratch(const Tensor& node, const DeviceFacts& device) {
    return layout_of(node).bytes() + part_bytes(column_count(node), device);
}

bool can_make_gated(const Tensor& gate, const Tensor& linear, const Tensor& glu, const Tensor& next,
                    const DeviceFacts& device) {
    const std::int64_t columns = column_count(glu);
    if (tile_for(columns) != kGatedTile) return false;
    if (gate.src[0]->type != linear.src[0]->type || !same_shape(gate, linear)) return false;
    const std::int64_t row_tiles = (gate.ne[0] + 63) / 64;
    const std::int64_t chunks = layout_of(gate).depth / TiledActivations::kChunk;
    if (parts_for(columns, row_tiles, chunks, device) > 1) return false;
    return gated_layout(glu, next).bytes() <= byte_size(glu) && is_aligned(glu.data, 16) &&
           can_be_described(*next.src[0]);
}

bool launch_wgmma_gated(const Tensor& glu, const Tensor& next, const TileSource& source,
                        const Launch& launch) {
    const std::array<const Tensor*, 2> nodes{glu.src[0], glu.src[1]};
    const ggml_type type = nodes[0]->src[0]->type, next_type = next.src[0]->type;
    const TiledActivations layout = layout_of(*nodes[0]);
    convert_to_tiles(source, type, order_of(type), layout, launch.scratch, launch);
    WgmmaArguments a = arguments_of(layout, column_count(glu), launch.scratch);
    const GatedActivations to = gated_layout(glu, next);
    auto* const at = static_cast<std::byte*>(glu.data);
    a.gated = {unpack<ops::Glu::Params>(glu),
               dot_operand_of(next_type),
               order_of(next_type),
               to.tiles.columns,
               reinterpret_cast<std::uint16_t*>(at),
               reinterpret_cast<std::uint8_t*>(at + to.exponents_at())};
    if (!find_launch(type)(a, nodes, kGatedTile, after_activations(launch))) return false;
    settle_exponents(to, at, launch);
    return true;
}

void convert_gated(const Tensor& glu, const Tensor& next, const Launch& launch) {
    const ggml_type type = next.src[0]->type;
    convert_to_tiles({.rows = glu.src[0], .glu = &glu, .linear = glu.src[1]}, type, order_of(type),
                     gated_layout(glu, next).tiles, static_cast<std::byte*>(glu.data), launch);
}

bool launch_wgmma_products(std::span<const Tensor* const> nodes, const TileSource& source,
                           const Tensor* sum, const Launch& launch) {
    const Tensor& node = *nodes.front();
    const ggml_type type = node.src[0]->type;
    const TiledActivations layout = layout_of(node);
    if (source.tiles == nullptr)
        convert_to_tiles(source, type, order_of(type), layout, launch.scratch, launch);
    const std::byte* const acts = source.tiles != nullptr ? source.tiles : launch.scratch;
    Launch next = after_activations(launch);
    while (!nodes.empty()) {  // weights of one type at a time
        std::size_t count = 1;
        while (count < nodes.size() && nodes[count]->src[0]->type == nodes[0]->src[0]->type)
            ++count;
        if (!launch_one_type(nodes.first(count), layout, acts, sum, next)) return false;
        next.is_chained = false;
        nodes = nodes.subspan(count);
    }
    return true;
}

bool share_activations(ggml_type a, ggml_type b) {
    return a == b || (find_launch(a) != nullptr && find_launch(b) != nullptr &&
                      dot_operand_of(a) == dot_operand_of(b) && order_of(a) == order_of(b));
}

const Kernel kGemmWgmma{"gemm_wgmma", GGML_OP_MUL_MAT, mul_mat_objection, mul_mat_scratch,
                        launch_mul_mat};
const Kernel kGemmWgmmaFew{"gemm_wgmma_few", GGML_OP_MUL_MAT, few_objection, wgmma_products_scratch,
                           launch_few};
const Kernel kMulMatIdWgmma{"mul_mat_id_wgmma", GGML_OP_MUL_MAT_ID, mul_mat_id_objection,
                            mul_mat_id_scratch, launch_mul_mat_id};

}  // namespace heddle::cuda
