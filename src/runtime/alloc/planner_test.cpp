#include "runtime/alloc/planner.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ggml/ops_math.h"
#include "ggml/ops_reduce.h"
#include "ops/fusion_test_support.hpp"
#include "runtime/alloc/blocked_groups.hpp"
#include "runtime/alloc/graph_allocator.hpp"
#include "runtime/alloc/test_support.hpp"
#include "runtime/host_buffer.hpp"
#include "runtime/test_support.hpp"

namespace heddle::alloc {
namespace {

using test::check_groups;
using test::FakeDevice;
using test::FusionLayers;
using test::SampleGraph;
using testing::IsEmpty;
using Rows = FusionSearch::Rows;

/// A graph of a layer, and what builds it.
struct Layer {
    explicit Layer(std::int64_t tokens)
        : sample(256),
          layers(sample.context(), &sample.graph(), tokens,
                 [this](ggml_type type, std::vector<std::int64_t> ne) {
                     Tensor* weight = ggml_new_tensor(sample.context(), type,
                                                      static_cast<int>(ne.size()), ne.data());
                     weight->data = this;  // any address: it counts as having memory
                     return weight;
                 }) {}

    Graph& graph() { return sample.graph(); }

    SampleGraph sample;
    FusionLayers layers;
};

std::unique_ptr<GraphAllocator> allocator_in(BufferType& type) {
    BufferType* const types[] = {&type};
    return *GraphAllocator::make(types);
}

std::size_t measured(const GraphAllocator& allocator, const Graph& graph, FusionCost cost) {
    return allocator.measure(graph, nullptr, nullptr, cost)->at(0);
}

/// A model of today in small, whose gates are GLUs.
void build_llama(SampleGraph& sample, std::int64_t tokens, int layers = 6) {
    test::Transformer(sample, {.layers = layers, .tokens = tokens, .cached = 512, .glu = true})
        .build();
}

/// Gate and up as wide as what they read: keeping that takes a third more.
void build_narrow(Layer& layer, std::int64_t tokens) {
    Tensor* x = layer.layers.input({64, tokens});
    Tensor* y = ggml_mul_mat(layer.sample.context(), layer.layers.matrix(64, 64), x);
    Tensor* a = layer.layers.in_order(layer.layers.product(y, 64));
    Tensor* b = layer.layers.product(y, 64);
    layer.layers.finish(ggml_swiglu_split(layer.sample.context(), a, b));
}

// ---- what devices fuse is not in the way of itself ---------------------------------------------

TEST(Planner, NoPatternIsBlockedInWhatWasReservedForManyTokens) {
    for (const FusionLayers::Sample& sample : FusionLayers::samples()) {
        FakeDevice device;
        auto allocator = allocator_in(device.type);
        Layer many(512), one(1);
        many.layers.build(sample);
        one.layers.build(sample);
        ASSERT_TRUE(allocator->reserve(many.graph(), nullptr, nullptr));
        const std::size_t reserved = *allocator->buffer_size(0);
        ASSERT_TRUE(allocator->allocate(one.graph()));
        EXPECT_EQ(*allocator->buffer_size(0), reserved);
        for (const Rows rows : {Rows::of_peers, Rows::all}) {
            const auto check = check_groups(one.graph(), {.rows = rows});
            EXPECT_GT(check.groups, 0) << sample.pattern;
            EXPECT_THAT(check.blocked, IsEmpty()) << sample.pattern;
        }
    }
}

TEST(Planner, OnTheCpuNothingIsHeldLonger) {
    int larger = 0;
    FakeDevice device;
    auto on_device = allocator_in(device.type), on_host = allocator_in(host_buffer_type());
    for (const std::int64_t tokens : {1, 512}) {
        SampleGraph sample(512);
        build_llama(sample, tokens);
        const auto bytes = [&](const GraphAllocator& allocator, FusionCost cost) {
            return measured(allocator, sample.graph(), cost);
        };
        EXPECT_EQ(bytes(*on_host, FusionCost::little), bytes(*on_host, FusionCost::nothing));
        larger += bytes(*on_device, FusionCost::little) > bytes(*on_device, FusionCost::nothing);
    }
    EXPECT_EQ(larger, 2);
}

TEST(Planner, LayersOfOneTokenAreFreeOfOverlapForATenthMore) {
    FakeDevice device;
    device.alignment = 32;
    auto allocator = allocator_in(device.type);
    SampleGraph sample(512);
    build_llama(sample, 1);
    const std::size_t bare = measured(*allocator, sample.graph(), FusionCost::nothing);
    ASSERT_TRUE(allocator->allocate(sample.graph()));
    const auto check = check_groups(sample.graph(), {.rows = Rows::of_peers});
    EXPECT_GE(check.groups, 6 * 3);
    EXPECT_THAT(check.blocked, IsEmpty());
    EXPECT_LE(*allocator->buffer_size(0), bare + bare / 10);
    RecordProperty("bare", static_cast<int>(bare));
    RecordProperty("with_groups", static_cast<int>(*allocator->buffer_size(0)));
}

TEST(Planner, WithoutGroupsGatesLieOverWhatTheyRead) {
    FakeDevice device;
    auto allocator = allocator_in(device.type);
    SampleGraph sample(512);
    build_llama(sample, 1);
    ASSERT_TRUE(allocator->reserve(sample.graph(), nullptr, nullptr, FusionCost::nothing));
    ASSERT_TRUE(allocator->place_reserved(sample.graph()));
    EXPECT_FALSE(check_groups(sample.graph(), {.rows = Rows::of_peers}).blocked.empty());
}

// ---- memory ------------------------------------------------------------------------------------

TEST(Planner, GroupsThatCostMoreThanATenthAreDroppedUnlessThereIsRoom) {
    FakeDevice device;
    auto allocator = allocator_in(device.type);
    Layer layer(4);
    build_narrow(layer, 4);
    const std::size_t bare = measured(*allocator, layer.graph(), FusionCost::nothing);
    EXPECT_EQ(measured(*allocator, layer.graph(), FusionCost::little), bare);
    Layer larger(64);
    build_narrow(larger, 64);
    ASSERT_TRUE(allocator->reserve(larger.graph(), nullptr, nullptr));
    ASSERT_TRUE(allocator->reserve(layer.graph(), nullptr, nullptr));
    ASSERT_TRUE(allocator->place_reserved(layer.graph()));
    EXPECT_EQ(check_groups(layer.graph()).groups, 1);
    EXPECT_THAT(check_groups(layer.graph()).blocked, IsEmpty());
}

TEST(Planner, SmallerGraphsOfTheSamePlanGetTheirGroupsBack) {
    FakeDevice device;
    auto allocator = allocator_in(device.type);
    Layer many(64), one(1), again(1), full(64);
    for (const auto& [layer, tokens] :
         {std::pair{&many, 64}, {&one, 1}, {&again, 1}, {&full, 64}}) {
        build_narrow(*layer, tokens);
    }
    ASSERT_TRUE(allocator->reserve(many.graph(), nullptr, nullptr));
    EXPECT_TRUE(allocator->plan().drops_groups());
    const std::size_t reserved = *allocator->buffer_size(0);
    for (Layer* layer : {&one, &again}) {
        ASSERT_TRUE(allocator->allocate(layer->graph()));
        EXPECT_FALSE(allocator->plan().drops_groups());
        EXPECT_THAT(check_groups(layer->graph()).blocked, IsEmpty());
    }
    ASSERT_TRUE(allocator->allocate(full.graph()));
    EXPECT_EQ(*allocator->buffer_size(0), reserved);
    EXPECT_TRUE(allocator->plan().drops_groups());
}

TEST(Planner, GraphsThatDifferInTheirTokensAloneShareAPlanForSeveralTypes) {
    FakeDevice first, second;
    BufferType* const types[] = {&first.type, &second.type};
    for (const FusionLayers::Sample& sample : FusionLayers::samples()) {
        auto allocator = *GraphAllocator::make(types);
        Layer many(512), one(1);
        many.layers.build(sample);
        one.layers.build(sample);
        const std::vector<int> nodes(nodes_of(many.graph()).size(), 1);
        const std::vector<int> leafs(leafs_of(many.graph()).size(), 1);
        ASSERT_TRUE(allocator->reserve(many.graph(), nodes.data(), leafs.data()));
        const auto placed = allocator->allocate(one.graph());
        EXPECT_TRUE(placed) << sample.pattern << ": " << placed.error().message;
    }
}

TEST(Planner, AFewGroupsAreDroppedWhereOnlySomeTimesAreScarce) {
    // A narrow gate while much else is alive, and one at a time when little is.
    FakeDevice device;
    Layer layer(4);
    ggml_context* c = layer.sample.context();
    const auto narrow = [&](Tensor* y) {
        Tensor* a = layer.layers.in_order(layer.layers.product(y, 64));
        Tensor* b = layer.layers.product(y, 64);
        return layer.layers.in_order(ggml_swiglu_split(c, a, b));
    };
    Tensor* x = layer.layers.input({64, 4});
    Tensor* quiet = narrow(layer.layers.product(x, 64));
    Tensor* kept = layer.layers.in_order(layer.layers.product(quiet, 256));
    Tensor* loud = layer.layers.product(quiet, 256);
    Tensor* a = layer.layers.in_order(layer.layers.product(loud, 256));
    Tensor* gated = ggml_swiglu_split(c, a, layer.layers.product(loud, 256));
    layer.layers.finish(ggml_add(c, gated, kept));
    auto allocator = allocator_in(device.type);
    const std::size_t bare = measured(*allocator, layer.graph(), FusionCost::nothing);
    ASSERT_TRUE(allocator->allocate(layer.graph()));
    EXPECT_LE(*allocator->buffer_size(0), bare + bare / 10);
    const auto& steps = allocator->plan().steps;
    EXPECT_GT(std::ranges::count(steps, true), 0);
    EXPECT_GT(std::ranges::count(steps, false), 0);
    const auto check = check_groups(layer.graph());
    EXPECT_EQ(check.groups, 2);
    EXPECT_EQ(check.blocked.size(), 1u);
}

TEST(Planner, IfMemoryLacksItIsTriedWithoutGroups) {
    FakeDevice device;
    auto allocator = allocator_in(device.type);
    SampleGraph sample(512);
    build_llama(sample, 1);
    static std::size_t most = 0;
    static const auto original = device.type.iface.alloc_buffer;
    most = measured(*allocator, sample.graph(), FusionCost::nothing);
    device.type.iface.alloc_buffer = [](BufferType* type, std::size_t size) -> Buffer* {
        return size > most ? nullptr : original(type, size);
    };
    ASSERT_GT(measured(*allocator, sample.graph(), FusionCost::little), most);
    const auto placed = allocator->allocate(sample.graph());
    ASSERT_TRUE(placed) << placed.error().message;
    EXPECT_EQ(*allocator->buffer_size(0), most);
}

// ---- lifetimes ---------------------------------------------------------------------------------

TEST(Planner, AProductsSourceIsNotTakenOverByTheSumBehindIt) {
    // y = W x + x: computed at once, other elements still read x when the first are written.
    FakeDevice device;
    auto allocator = allocator_in(device.type);
    Layer reserve(64), layer(4);
    Tensor *x = nullptr, *y = nullptr;
    for (Layer* each : {&reserve, &layer}) {
        ggml_context* c = each->sample.context();
        x = ggml_sin(c, each->layers.input({64, each == &reserve ? 64 : 4}));
        y = ggml_add(c, x, each->layers.product(x, 64));
        each->layers.finish(ggml_sin(c, y));
        ASSERT_TRUE(allocator->allocate(each->graph()));
    }
    EXPECT_NE(x->data, y->data);
    EXPECT_FALSE(test::ByteRange(*x).meets(test::ByteRange(*y)));
}

TEST(Planner, RowsThatAreStoredInACacheHoldNothing) {
    FakeDevice device;
    BufferType* const types[] = {&device.type};
    const std::size_t alignments[] = {4};
    const std::uint8_t fuses[] = {1};
    Layer layer(4);
    layer.layers.in_order(layer.layers.rope_set_rows(layer.layers.input({64, 4})));
    LifetimeFinder finder;
    const Assignment all{
        .arenas = types, .alignments = alignments, .nodes = {}, .leafs = {}, .fuses = fuses};
    ASSERT_TRUE(finder.find(layer.graph(), all));
    EXPECT_TRUE(finder.groups().empty());
}

TEST(Planner, GroupsOverTwoArenasAreNone) {
    FakeDevice first, second;
    BufferType* const types[] = {&first.type, &second.type};
    const std::size_t alignments[] = {4, 4};
    const std::uint8_t fuses[] = {1, 1};
    Layer layer(1);
    layer.layers.finish(layer.layers.plain_gate(layer.layers.input({64, 1})));
    LifetimeFinder finder;
    for (const std::int32_t other : {0, 1}) {
        const std::int32_t nodes[] = {0, other, 0}, leafs[] = {0, 0, 0, 0};
        const Assignment all{.arenas = types,
                             .alignments = alignments,
                             .nodes = nodes,
                             .leafs = leafs,
                             .fuses = fuses};
        ASSERT_TRUE(finder.find(layer.graph(), all));
        EXPECT_EQ(finder.groups().size(), other == 0 ? 1u : 0u);
    }
}

TEST(Planner, TheSameGraphGivesTheSamePlan) {
    FakeDevice device;
    std::vector<std::size_t> offsets[2];
    for (auto& each : offsets) {
        auto allocator = allocator_in(device.type);
        SampleGraph sample(512);
        build_llama(sample, 3);
        ASSERT_TRUE(allocator->reserve(sample.graph(), nullptr, nullptr));
        for (const Place& place : allocator->plan().places) each.push_back(place.offset);
    }
    EXPECT_EQ(offsets[0], offsets[1]);
}

}  // namespace
}  // namespace heddle::alloc
