#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "backends/gpu/architectures.hpp"
#include "backends/gpu/bytes_text.hpp"
#include "backends/gpu/codebooks.hpp"
#include "backends/gpu/conditions/common.hpp"
#include "backends/gpu/environment.hpp"
#include "backends/gpu/gather_products.hpp"
#include "backends/gpu/hazards.hpp"
#include "backends/gpu/kernel_table.hpp"
#include "backends/gpu/offload.hpp"
#include "backends/gpu/replay_key.hpp"
#include "backends/gpu/tensor_ranges.hpp"
#include "core/test_support.hpp"
#include "ggml/op_list.h"
#include "ggml/ops_math.h"

namespace heddle::gpu {
namespace {

struct Row {
    const char* name;
    Op op;
    std::string_view (*objection)(const Tensor& node);
};

std::string_view needs_even_rows(const Tensor& node) {
    return node.ne[0] % 2 == 0 ? std::string_view{} : "rows are odd";
}
std::string_view needs_one_row(const Tensor& node) {
    return node.ne[1] == 1 ? std::string_view{} : "there are several rows";
}

constexpr Row kFast[] = {{"even", GGML_OP_ADD, needs_even_rows}};
constexpr Row kPlain[] = {{"single", GGML_OP_ADD, needs_one_row}};

Tensor node_of(Op op, std::int64_t n0, std::int64_t n1, std::int64_t n2 = 1) {
    Tensor node{};
    node.op = op;
    node.ne[0] = n0, node.ne[1] = n1, node.ne[2] = n2, node.ne[3] = 1;
    return node;
}

class KernelTableTest : public testing::Test {
protected:
    /// A node as its builder makes it: rows look at no others.
    Tensor& node(Op op, std::int64_t n0, std::int64_t n1) {
        ggml_context* const c = &static_cast<Context&>(context_);
        Tensor* const x = context_.f32({n0, n1});
        return op == GGML_OP_ADD ? *ggml_add(c, x, x) : *ggml_mul(c, x, x);
    }

private:
    TestContext context_;
};

TEST_F(KernelTableTest, TheFirstRowWithoutAnObjectionRunsANode) {
    const KernelTable<Row> table{kFast, kPlain};
    EXPECT_STREQ(table.choose(node(GGML_OP_ADD, 4, 7))->name, "even");
    EXPECT_STREQ(table.choose(node(GGML_OP_ADD, 3, 1))->name, "single");
}

TEST_F(KernelTableTest, EveryRowAskedSaysWhyANodeIsDeclined) {
    const KernelTable<Row> table{kFast, kPlain};
    Objections all, none;
    EXPECT_EQ(table.choose(node(GGML_OP_ADD, 3, 2), &all), nullptr);
    EXPECT_EQ(all.text_for(node(GGML_OP_ADD, 3, 2)),
              "even: rows are odd; single: there are several rows "
              "(f32[3,2] = ADD(f32[3,2], f32[3,2]))");
    EXPECT_EQ(table.choose(node(GGML_OP_MUL, 4, 1), &none), nullptr);
    EXPECT_EQ(none.text(), "there is no kernel for this op");
}

TEST_F(KernelTableTest, NoRowIsAskedAboutANodeThatWasWrittenTo) {
    const KernelTable<Row> table{kFast, kPlain};
    Objections why;
    Tensor& changed = node(GGML_OP_ADD, 4, 7);
    changed.ne[1] = 8;
    EXPECT_EQ(table.choose(changed, &why), nullptr);
    EXPECT_EQ(why.text(), kUnsoundNode);
}

TEST(KernelTable, ANumberThatNamesNoOpHasNoKernels) {
    const KernelTable<Row> table{kFast};
    EXPECT_TRUE(table.of(static_cast<Op>(GGML_OP_COUNT)).empty());
}

TEST(Offload, TheBatchOfAProductIsItsNumberOfColumns) {
    EXPECT_EQ(batch_of(node_of(GGML_OP_MUL_MAT, 64, 5, 3)), 5);
    EXPECT_EQ(batch_of(node_of(GGML_OP_MUL_MAT_ID, 64, 5, 3)), 3);
    EXPECT_EQ(batch_of(node_of(GGML_OP_ADD, 64, 5, 3)), 15);
}

TEST(Offload, LookingUpRowsIsNeverWorthSendingTheTable) {
    EXPECT_EQ(batch_of(node_of(GGML_OP_GET_ROWS, 64, 512)), 0);
}

TEST(Architectures, MachineCodeRunsOnLaterDevicesOfItsFamilyAlone) {
    EXPECT_TRUE(runs_on("80-real", {8, 0}));
    EXPECT_TRUE(runs_on("80-real", {8, 6}));
    EXPECT_FALSE(runs_on("86-real", {8, 0}));
    EXPECT_FALSE(runs_on("80-real", {9, 0}));
}

TEST(Architectures, PtxRunsOnAllLaterDevices) {
    EXPECT_TRUE(runs_on("80", {12, 0}));
    EXPECT_TRUE(runs_on("80-virtual", {9, 0}));
    EXPECT_FALSE(runs_on("80-virtual", {7, 5}));
}

TEST(Architectures, CodeForOneDeviceRunsOnThatDeviceAlone) {
    EXPECT_TRUE(runs_on("90a", {9, 0}));
    EXPECT_FALSE(runs_on("90a", {10, 0}));
    EXPECT_TRUE(runs_on("80-real,90a-real,120a-real", {12, 0}));
    EXPECT_FALSE(runs_on("80-real,90a-real,120a-real", {12, 1}));
}

TEST(Architectures, NothingRunsWhereNothingWasCompiled) {
    EXPECT_FALSE(runs_on("", {9, 0}));
    EXPECT_FALSE(runs_on("native", {9, 0}));
}

// ---- replay ------------------------------------------------------------------------------------

/// A node with an operand, both in memory.
struct SmallGraph {
    float memory[8] = {};
    Tensor x = node_of(GGML_OP_NONE, 4, 1), y = node_of(GGML_OP_SCALE, 4, 1);

    SmallGraph() {
        x.data = memory, y.data = memory + 4;
        y.src[0] = &x;
    }
    ReplayKey key() const {
        ReplayKey key;
        key.add(kFast, y);
        return key;
    }
};

// ---- products of the same activations ----------------------------------------------------------

/// Queries, keys and values of `x`, each turned before the next is computed.
struct Projections {
    Tensor x = node_of(GGML_OP_MUL, 4, 1);
    std::array<Tensor, 3> weights{}, products{}, turned{};
    std::vector<Tensor*> nodes{&x};

    Projections() {
        for (std::size_t i = 0; i < 3; ++i) {
            products[i] = node_of(GGML_OP_MUL_MAT, 4, 1);
            products[i].src[0] = &weights[i];
            products[i].src[1] = &x;
            turned[i] = node_of(GGML_OP_ROPE, 4, 1);
            turned[i].src[0] = &products[i];
            nodes.insert(nodes.end(), {&products[i], &turned[i]});
        }
    }
};

TEST(GatherProducts, BringsProductsOfTheSameActivationsTogether) {
    Projections p;
    gather_products(p.nodes);
    const std::vector<Tensor*> expected{&p.x,           &p.products[0], &p.products[1],
                                        &p.products[2], &p.turned[0],   &p.turned[1],
                                        &p.turned[2]};
    EXPECT_EQ(p.nodes, expected);
}

TEST(GatherProducts, MovesNoProductBeforeWhatItReads) {
    Projections p;
    p.products[1].src[0] = &p.turned[0];
    p.products[2].src[1] = &p.turned[1];  // other activations
    const std::vector<Tensor*> before = p.nodes;
    gather_products(p.nodes);
    EXPECT_EQ(p.nodes, before);
}

TEST(GatherProducts, MovesNoProductBeforeAWriteToItsOperands) {
    Projections p;
    p.turned[0].view_src = &p.x;  // in place
    p.turned[1].view_src = &p.weights[2];
    const std::vector<Tensor*> before = p.nodes;
    gather_products(p.nodes);
    EXPECT_EQ(p.nodes, before);
}

TEST(GatherProducts, LeavesTheLastNodeLast) {
    Projections p;
    p.nodes.pop_back();
    gather_products(p.nodes);
    EXPECT_EQ(p.nodes.back(), &p.products[2]);
    EXPECT_EQ(p.nodes[2], &p.products[1]);
}

TEST(ReplayKey, DoesNotDependOnWhatTensorsHoldOrAreCalled) {
    SmallGraph graph;
    const ReplayKey before = graph.key();
    graph.memory[2] = 7;
    std::strcpy(graph.y.name, "scaled");
    EXPECT_TRUE(graph.key() == before);
}

TEST(ReplayKey, ChangesWithEverythingThatKernelsTakeFromANode) {
    const SmallGraph plain;
    const auto changes = [&](const char* what, auto&& change) {
        SmallGraph graph;
        graph.x.data = plain.x.data, graph.y.data = plain.y.data;  // else addresses differ anyway
        EXPECT_TRUE(graph.key() == plain.key());
        change(graph);
        EXPECT_FALSE(graph.key() == plain.key()) << what;
    };
    changes("address", [](SmallGraph& graph) { graph.y.data = graph.memory; });
    changes("extent", [](SmallGraph& graph) { graph.y.ne[1] = 2; });
    changes("stride", [](SmallGraph& graph) { graph.y.nb[1] = 64; });
    changes("type", [](SmallGraph& graph) { graph.y.type = GGML_TYPE_F16; });
    changes("first parameter", [](SmallGraph& graph) { graph.y.op_params[0] = 1; });
    changes("last parameter", [](SmallGraph& graph) { graph.y.op_params[15] = 1; });
    changes("address of an operand", [](SmallGraph& graph) { graph.x.data = graph.memory + 1; });
    changes("extent of an operand", [](SmallGraph& graph) { graph.x.ne[3] = 2; });
    changes("operand left out", [](SmallGraph& graph) { graph.y.src[0] = nullptr; });
    changes("operand in another slot",
            [](SmallGraph& graph) { std::swap(graph.y.src[0], graph.y.src[1]); });
}

TEST(ReplayKey, ChangesWithTheKernel) {
    const SmallGraph graph;
    ReplayKey other;
    other.add(kPlain, graph.y);
    EXPECT_FALSE(other == graph.key());
}

// ---- hazards -----------------------------------------------------------------------------------

constexpr Range kA{0, 16}, kB{16, 32}, kC{32, 48};

TEST(Hazards, KernelsThatShareNothingNeedNoBarrier) {
    Hazards hazards;
    EXPECT_FALSE(hazards.add(std::array{kA}, std::array{kB}));
    EXPECT_FALSE(hazards.add(std::array{kA}, std::array{kC}));  // both read the same
}

TEST(Hazards, ReadingWhatWasWrittenNeedsABarrier) {
    Hazards hazards;
    hazards.add({}, std::array{kA});
    EXPECT_TRUE(hazards.add(std::array{kA}, std::array{kB}));
}

TEST(Hazards, WritingWhatWasReadOrWrittenNeedsABarrier) {
    Hazards hazards;
    hazards.add(std::array{kA}, std::array{kB});
    EXPECT_TRUE(hazards.add({}, std::array{kA}));
    EXPECT_TRUE(hazards.add({}, std::array{kA}));
}

TEST(Hazards, ABarrierEndsAllThatCameBefore) {
    Hazards hazards;
    hazards.add({}, std::array{kA});
    hazards.add({}, std::array{kB});
    EXPECT_TRUE(hazards.add(std::array{kA}, std::array{kC}));
    EXPECT_FALSE(hazards.add(std::array{kB}, {}));
    EXPECT_TRUE(hazards.add(std::array{kC}, {}));
}

TEST(Hazards, PartsOfARangeCount) {
    Hazards hazards;
    hazards.add({}, std::array{Range{0, 20}});
    EXPECT_TRUE(hazards.add(std::array{kB}, {}));
}

// ---- memory of tensors -------------------------------------------------------------------------

Tensor floats_at(std::uintptr_t address, std::int64_t columns, std::int64_t rows = 1) {
    Tensor tensor = node_of(GGML_OP_NONE, columns, rows);
    tensor.type = GGML_TYPE_F32;
    tensor.nb[0] = sizeof(float);
    for (int d = 1; d < kMaxDims; ++d) {
        tensor.nb[d] = tensor.nb[d - 1] * static_cast<std::size_t>(tensor.ne[d - 1]);
    }
    tensor.data = reinterpret_cast<void*>(address);
    return tensor;
}

TEST(TensorRanges, OverlapWhereTheyShareAByte) {
    const Tensor a = floats_at(0x1000, 4), next = floats_at(0x1010, 4),
                 inside = floats_at(0x100c, 1);
    EXPECT_FALSE(overlap(a, next));
    EXPECT_TRUE(overlap(a, inside));
    EXPECT_FALSE(overlap(next, inside));
}

TEST(TensorRanges, WithoutMemoryOverlapWhereTheyHaveOneRoot) {
    const Tensor a = floats_at(0, 4), b = floats_at(0, 4);
    Tensor view = floats_at(0, 2);
    view.view_src = const_cast<Tensor*>(&a);
    EXPECT_TRUE(overlap(a, view));
    EXPECT_FALSE(overlap(b, view));
}

TEST(TensorRanges, NodesAreApartUnlessOneWritesWhatTheOtherTouches) {
    Tensor x = floats_at(0x1000, 4), y = floats_at(0x2000, 4);
    Tensor one = floats_at(0x3000, 4), other = floats_at(0x4000, 4);
    one.src[0] = other.src[0] = &x;
    other.src[1] = &y;
    EXPECT_TRUE(are_apart(one, other)) << "both read the same";
    one.data = y.data;
    EXPECT_FALSE(are_apart(one, other));
    EXPECT_FALSE(are_apart(other, one));
    one.data = other.data;
    EXPECT_FALSE(are_apart(one, other));
}

TEST(TensorRanges, ElementsLieAtMultiplesInEveryDimensionThatHasSeveral) {
    Tensor tensor = floats_at(0x1008, 4, 2);
    EXPECT_TRUE(has_elements_at(tensor, 4));
    EXPECT_FALSE(has_elements_at(tensor, 16));
    tensor.nb[1] = 18;
    EXPECT_FALSE(has_elements_at(tensor, 4));
    tensor.ne[1] = 1;
    EXPECT_TRUE(has_elements_at(tensor, 4));
}

// ---- words and numbers -------------------------------------------------------------------------

TEST(Environment, OnlyWholeNumbersAreTaken) {
    std::string told;
    ggml_log_set([](ggml_log_level, const char* words,
                    void* to) { *static_cast<std::string*>(to) += words; },
                 &told);
    EXPECT_EQ(whole_number("CUDA", "N", nullptr), std::nullopt);
    EXPECT_EQ(whole_number("CUDA", "N", "-12"), -12);
    EXPECT_EQ(told, "");
    for (const char* words : {"", "3x", " 3", "99999999999999999999"}) {
        told.clear();
        EXPECT_EQ(whole_number("CUDA", "N", words), std::nullopt) << words;
        EXPECT_NE(told.find("CUDA: N is '" + std::string(words) + "', no whole number"),
                  std::string::npos)
            << told;
    }
    ggml_log_set(nullptr, nullptr);
}

TEST(BytesText, HasTheLargestUnitThatIsNotBelowOne) {
    EXPECT_EQ(describe_bytes(1023), "1023 bytes");
    EXPECT_EQ(describe_bytes(1536), "1.5 KiB");
    EXPECT_EQ(describe_bytes(std::size_t{3} << 30), "3.0 GiB");
    EXPECT_EQ(describe_bytes(std::size_t{5000} << 40), "5000.0 TiB");
}

// ---- types -------------------------------------------------------------------------------------

TEST(Codebooks, BeginWithTheirFirstRows) {
    // Every element of a row is one of the levels of its format.
    for (const std::uint64_t row : kCodebooks.iq2_xxs.row) {
        for (int j = 0; j < 8; ++j) {
            const auto level = static_cast<int>(row >> 8 * j & 255u);
            EXPECT_TRUE(level == 8 || level == 25 || level == 43) << level;
        }
    }
    EXPECT_NE(kCodebooks.iq3_s.row[511], 0u);
    EXPECT_NE(kCodebooks.iq1.row[2047], kCodebooks.iq1.row[0]);
}

TEST(Conditions, KnowWhichTypesAreDecodedAndEncoded) {
    EXPECT_TRUE(has_decoder(GGML_TYPE_IQ1_M));
    EXPECT_TRUE(has_decoder(GGML_TYPE_F16));
    EXPECT_FALSE(has_decoder(GGML_TYPE_I32));
    EXPECT_TRUE(has_encoder(GGML_TYPE_MXFP4));
    EXPECT_FALSE(has_encoder(GGML_TYPE_Q4_K));
}

}  // namespace
}  // namespace heddle::gpu
