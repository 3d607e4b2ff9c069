#include "test_support.hpp"

namespace heddle {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

Tensor numbers(Context& context, std::initializer_list<std::int64_t> extents, const char* name) {
    return context.tensor(GGML_TYPE_F32, extents, name);
}

TEST(Contexts, DescribeTensors) {
    Context context = must(Context::make());
    const Tensor x = numbers(context, {4, 3}, "x");
    ASSERT_TRUE(x);
    EXPECT_EQ(x.name(), "x");
    EXPECT_EQ(x.type(), GGML_TYPE_F32);
    EXPECT_THAT(x.extents(), ElementsAre(4, 3, 1, 1));
    EXPECT_EQ(x.elements(), 12);
    EXPECT_EQ(x.bytes(), 48u);
    EXPECT_EQ(x.stride(1), 16u);
    EXPECT_TRUE(context.check());
}

TEST(Contexts, GiveTheirRoomBackOnReset) {
    Context context = must(Context::make(2));
    for (int round = 0; round < 5; ++round) {
        const Tensor x = numbers(context, {8}, "x");
        EXPECT_TRUE(must(Graph::of(context, sqr(x))).nodes() == 1);
        EXPECT_EQ(context.tensors(), 2u);
        context.reset();
        EXPECT_EQ(context.tensors(), 0u);
    }
}

TEST(Contexts, OfAnySizeHoldTwoGraphsOfAllTheirTensors) {
    for (const std::size_t tensors : {2u, 3u, 40u, 1000u}) {
        Context context = must(Context::make(tensors));
        Tensor x = numbers(context, {8}, "x");
        for (std::size_t i = 1; i < tensors; ++i) x = sqr(x);
        EXPECT_EQ(said(Graph::of(context, x)), "succeeded") << tensors;
        EXPECT_EQ(said(Graph::of(context, x)), "succeeded") << tensors;
    }
}

TEST(Contexts, SayThatTheyAreFull) {
    Context context = must(Context::make(1));
    Tensor x = numbers(context, {8}, "x");
    for (int i = 0; i < 1000; ++i) x = sqr(x);
    EXPECT_FALSE(x);
    EXPECT_THAT(said(context.check()), HasSubstr("not enough space"));
}

TEST(Contexts, RefuseSizesBeyondTheMachine) {
    EXPECT_THAT(said(Context::make(std::size_t{1} << 60)), HasSubstr("at most 16777216"));
}

TEST(Ops, ThatFailGiveTheirReasonWhenTheGraphIsMade) {
    Context context = must(Context::make());
    const Tensor a = numbers(context, {4, 3}, "a"), b = numbers(context, {5, 3}, "b");
    const Tensor y = silu(matmul(a, b) + a);  // everything after the product is empty, too
    EXPECT_FALSE(y);
    const auto graph = Graph::of(context, y);
    ASSERT_FALSE(graph);
    EXPECT_EQ(graph.error().code, Errc::invalid_argument);
    EXPECT_THAT(graph.error().message,
                AllOf(HasSubstr("mul_mat"), HasSubstr("'a'"), HasSubstr("'b'")));
    EXPECT_EQ(said(context.check()), graph.error().message);
}

TEST(Ops, OfEmptyTensorsCanBeAskedAnything) {
    const Tensor none;
    EXPECT_EQ(none.extent(1), 0);
    EXPECT_EQ(none.bytes(), 0u);
    EXPECT_EQ(none.name(), "");
    EXPECT_FALSE(silu(none));
    EXPECT_FALSE(none.named("x").as_input());
    EXPECT_THAT(said(read<float>(none)), HasSubstr("could not be built"));
}

TEST(Ops, GoToTheContextOfOperandsThatAreNoStore) {
    Context weights = must(Context::make_store(1)), work = must(Context::make());
    const Tensor w = numbers(weights, {4, 4}, "w"), x = numbers(work, {4}, "x");
    EXPECT_TRUE(matmul(w, x));
    EXPECT_EQ(weights.tensors(), 1u);
    EXPECT_EQ(work.tensors(), 2u);
}

TEST(Ops, TellWhichOperandIsMissing) {
    Context context = must(Context::make());
    const Tensor x = numbers(context, {4}, "x");
    EXPECT_FALSE(x + Tensor());
    EXPECT_EQ(said(context.check()), "operand 2 of an op is an empty tensor");
}

TEST(Ops, CarryTheReasonFromOneContextToAnother) {
    Context first = must(Context::make()), second = must(Context::make());
    const Tensor broken = matmul(numbers(first, {4, 3}, "a"), numbers(first, {5, 3}, "b"));
    EXPECT_FALSE(numbers(second, {4}, "x") + broken);
    EXPECT_EQ(said(second.check()), said(first.check()));
    EXPECT_THAT(said(second.check()), HasSubstr("mul_mat"));
}

TEST(Graphs, NeedResults) {
    Context context = must(Context::make());
    EXPECT_THAT(said(Graph::of(context, std::span<const Tensor>())), HasSubstr("no results"));
    EXPECT_THAT(said(Graph::of(context, Tensor())), HasSubstr("could not be built"));
}

TEST(Graphs, SayThatTheirCapacityIsTooSmall) {
    Context context = must(Context::make());
    Tensor x = numbers(context, {4}, "x");
    for (int i = 0; i < 20; ++i) x = sqr(x);
    EXPECT_FALSE(Graph::of(context, x, 3));
}

class Data : public testing::Test {
protected:
    Context context = must(Context::make());
    Tensor x = numbers(context, {3}, "x");
    Tensor ids = context.tensor(GGML_TYPE_I32, {3}, "ids");
    Device cpu = must(Device::cpu());
};

TEST_F(Data, ComesBackAsItWasWritten) {
    const Buffer buffer = must(Buffer::for_all(context, cpu));
    must(write<float>(x, {1, 2, 3}));
    must(write(ids, std::vector<std::int32_t>{7, 8, 9}));
    EXPECT_THAT(must(read<float>(x)), ElementsAre(1, 2, 3));
    EXPECT_THAT(must(read<std::int32_t>(ids)), ElementsAre(7, 8, 9));
    EXPECT_EQ(must(read<std::byte>(x)).size(), 12u);  // raw bytes of any type
}

TEST_F(Data, OfTheWrongSizeIsRefused) {
    const Buffer buffer = must(Buffer::for_all(context, cpu));
    EXPECT_EQ(said(write<float>(x, {1, 2})), "writing 'x': 8 bytes were given, the tensor has 12");
    std::vector<float> four(4);
    EXPECT_EQ(said(read<float>(x, std::span(four))),
              "reading 'x': 16 bytes were given, the tensor has 12");
}

TEST_F(Data, OfTheWrongTypeIsRefused) {
    const Buffer buffer = must(Buffer::for_all(context, cpu));
    EXPECT_THAT(said(write<float>(ids, {1, 2, 3})), HasSubstr("'ids': its elements are i32"));
    EXPECT_THAT(said(read<std::int32_t>(x)), HasSubstr("'x': its elements are f32"));
}

TEST_F(Data, OfTensorsWithoutMemoryIsRefused) {
    EXPECT_NE(said(write<float>(x, {1, 2, 3})), "succeeded");
    EXPECT_NE(said(read<float>(x)), "succeeded");
}

TEST_F(Data, OfScatteredElementsIsRefused) {
    const Tensor turned = transpose(numbers(context, {2, 2}, "m")).named("turned");
    const Buffer buffer = must(Buffer::for_all(context, cpu));
    EXPECT_THAT(said(read<float>(turned)), HasSubstr("'turned': its elements do not lie"));
}

TEST_F(Data, LivesInBuffersThatSayWhatTheyAre) {
    Buffer buffer = must(Buffer::for_all(context, cpu));
    EXPECT_TRUE(buffer.is_host());
    EXPECT_GE(buffer.size(), 24u);
    buffer.clear(0);
    EXPECT_THAT(must(read<float>(x)), ElementsAre(0, 0, 0));
    EXPECT_FALSE(Buffer::for_all(context, cpu)) << "all tensors have memory already";
}

TEST_F(Data, CanLieInMemoryOfTheProgram) {
    alignas(64) float memory[16] = {5, 6, 7};
    Buffer buffer = must(Buffer::around(cpu, memory, sizeof memory, sizeof memory));
    must(buffer.place(x, memory));
    EXPECT_THAT(must(read<float>(x)), ElementsAre(5, 6, 7));
    EXPECT_FALSE(buffer.place(ids, memory + 15)) << "passes the end";
}

}  // namespace
}  // namespace heddle
