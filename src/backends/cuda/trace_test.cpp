// What a device would compute together, asked before there is memory. Needs no device.

#include "backends/cuda/trace.hpp"

#include <gtest/gtest.h>

#include <map>

#include "ggml-cpp.h"
#include "ggml.h"
#include "ggml/op_list.h"
#include "ggml/ops_math.h"
#include "ggml/ops_reduce.h"

namespace heddle::cuda {
namespace {

/// The second half of a layer of a language model: norm, gate and up, down, sum.
struct HalfLayer {
    ggml_context_ptr context{
        ggml_init({.mem_size = 1 << 20, .mem_buffer = nullptr, .no_alloc = true})};
    ggml_cgraph* graph = ggml_new_graph(context.get());
    std::map<const ggml_tensor*, int> numbers;
    ggml_tensor *norm, *scaled, *gate, *up, *gated, *down, *sum;

    explicit HalfLayer(std::int64_t tokens) {
        ggml_context* const c = context.get();
        const auto matrix = [&](std::int64_t columns, std::int64_t rows) {
            return ggml_new_tensor_2d(c, GGML_TYPE_Q8_0, columns, rows);
        };
        ggml_tensor* const x = ggml_new_tensor_2d(c, GGML_TYPE_F32, 512, tokens);
        norm = ggml_rms_norm(c, x, 1e-5f);
        scaled = ggml_mul(c, norm, ggml_new_tensor_1d(c, GGML_TYPE_F32, 512));
        gate = ggml_mul_mat(c, matrix(512, 1024), scaled);
        up = ggml_mul_mat(c, matrix(512, 1024), scaled);
        gated = ggml_swiglu_split(c, gate, up);
        down = ggml_mul_mat(c, matrix(1024, 512), gated);
        sum = ggml_add(c, x, down);
        ggml_build_forward_expand(graph, sum);
        for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
            numbers[ggml_graph_node(graph, i)] = i;
        }
    }

    /// The first node that each goes with.
    std::vector<int> with(const Board& board) const {
        std::vector<int> numbers_of_first(static_cast<std::size_t>(ggml_graph_n_nodes(graph)));
        const auto found = find_fused(board, *graph, numbers_of_first);
        EXPECT_TRUE(found) << found.error().message;
        return numbers_of_first;
    }
    int first(const std::vector<int>& with, const ggml_tensor* node) const {
        return with[static_cast<std::size_t>(numbers.at(node))];
    }
};

Board hopper() {
    Board board;
    board.name = "CUDA0";
    board.facts = {.multiprocessors = 132, .architecture = 900, .shared_per_block = 232448};
    return board;
}

TEST(FindFused, OneTokenHasItsNormAndGateWithTheirProducts) {
    const HalfLayer layer(1);
    const std::vector<int> with = layer.with(hopper());
    const int first = layer.first(with, layer.norm);
    for (const ggml_tensor* node : {layer.scaled, layer.gate, layer.up, layer.gated}) {
        EXPECT_EQ(layer.first(with, node), first) << ggml_op_name(node->op);
    }
    EXPECT_EQ(layer.first(with, layer.sum), layer.first(with, layer.down));
    EXPECT_NE(layer.first(with, layer.down), first);
}

TEST(FindFused, WithoutFusionEveryNodeIsAlone) {
    const HalfLayer layer(1);
    Board board = hopper();
    board.options.is_fusing = false;
    const std::vector<int> with = layer.with(board);
    for (std::size_t i = 0; i < with.size(); ++i) EXPECT_EQ(with[i], static_cast<int>(i));
}

TEST(FindFused, ANodeThatNoKernelTakesIsASentence) {
    const HalfLayer layer(1);
    layer.norm->op = GGML_OP_CUSTOM;
    std::vector<int> with(static_cast<std::size_t>(ggml_graph_n_nodes(layer.graph)));
    EXPECT_FALSE(find_fused(hopper(), *layer.graph, with));
}

}  // namespace
}  // namespace heddle::cuda
