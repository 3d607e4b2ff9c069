#include "backends/sim/parameters.hpp"

#include <gtest/gtest.h>

#include "ggml/op_list.h"

namespace heddle::sim {
namespace {

std::string refusal(std::string_view text) {
    const auto parsed = parse_parameters(text);
    return parsed ? "accepted" : parsed.error().message;
}

Tensor node_of(Op op, int function = 0) {
    Tensor node{};
    node.op = op;
    node.op_params[0] = function;
    return node;
}

TEST(SimParameters, AnEmptyTextGivesTheDefaults) {
    const auto parsed = parse_parameters("");
    ASSERT_TRUE(parsed);
    EXPECT_EQ(parsed->devices, 1);
    EXPECT_EQ(parsed->memory, std::size_t{4} << 30);
    EXPECT_EQ(parsed->max_buffer, parsed->memory);
    EXPECT_FALSE(parsed->pinned);
    EXPECT_EQ(parsed->faults.node, 0u);
    EXPECT_LT(parsed->faults.lost, 0);
}

TEST(SimParameters, ReadsAllOfThem) {
    const auto parsed = parse_parameters(
        "devices=2,mem=3G,maxbuf=512M,flops=20T,membw=800G,link=25G,latency=10us,ops=all,-ROPE,"
        "pinned=1,offload=8,trace=0,alloc=3,copy=4,node=5,lost=1.5ms");
    ASSERT_TRUE(parsed) << parsed.error().message;
    EXPECT_EQ(parsed->devices, 2);
    EXPECT_EQ(parsed->memory, std::size_t{3} << 30);
    EXPECT_EQ(parsed->max_buffer, std::size_t{512} << 20);
    EXPECT_EQ(parsed->flops, 20e12);
    EXPECT_EQ(parsed->memory_bandwidth, 800e9);
    EXPECT_EQ(parsed->link_bandwidth, 25e9);
    EXPECT_DOUBLE_EQ(parsed->latency, 10e-6);
    EXPECT_TRUE(parsed->pinned);
    EXPECT_EQ(parsed->offload_rows, 8);
    EXPECT_FALSE(parsed->trace);
    EXPECT_EQ(parsed->faults.allocation, 3u);
    EXPECT_EQ(parsed->faults.copy, 4u);
    EXPECT_EQ(parsed->faults.node, 5u);
    EXPECT_DOUBLE_EQ(parsed->faults.lost, 1.5e-3);
    EXPECT_FALSE(parsed->ops.has(node_of(GGML_OP_ROPE)));
    EXPECT_TRUE(parsed->ops.has(node_of(GGML_OP_MUL_MAT)));
}

TEST(SimParameters, ChoosesOpsAndSingleFunctions) {
    const auto few = parse_parameters("ops=MUL_MAT,add,SILU,mem=1G");
    ASSERT_TRUE(few) << few.error().message;
    EXPECT_TRUE(few->ops.has(node_of(GGML_OP_MUL_MAT)));
    EXPECT_TRUE(few->ops.has(node_of(GGML_OP_ADD)));
    EXPECT_FALSE(few->ops.has(node_of(GGML_OP_MUL)));
    EXPECT_TRUE(few->ops.has(node_of(GGML_OP_UNARY, GGML_UNARY_OP_SILU)));
    EXPECT_FALSE(few->ops.has(node_of(GGML_OP_UNARY, GGML_UNARY_OP_GELU)));
    EXPECT_EQ(few->memory, std::size_t{1} << 30);

    const auto most = parse_parameters("ops=-GELU,-SWIGLU");
    ASSERT_TRUE(most) << most.error().message;
    EXPECT_TRUE(most->ops.has(node_of(GGML_OP_UNARY, GGML_UNARY_OP_SILU)));
    EXPECT_FALSE(most->ops.has(node_of(GGML_OP_UNARY, GGML_UNARY_OP_GELU)));
    EXPECT_FALSE(most->ops.has(node_of(GGML_OP_GLU, GGML_GLU_OP_SWIGLU)));
    EXPECT_TRUE(most->ops.has(node_of(GGML_OP_GLU, GGML_GLU_OP_GEGLU)));
    EXPECT_FALSE(most->ops.has(node_of(GGML_OP_MAP_CUSTOM1)));

    const auto none = parse_parameters("ops=none");
    ASSERT_TRUE(none);
    EXPECT_FALSE(none->ops.has(node_of(GGML_OP_ADD)));
}

TEST(SimParameters, RefusesTextsThatMakeNoSense) {
    EXPECT_EQ(refusal("devices=0"), "devices: '0' is not a number of devices from 1 to 1024");
    EXPECT_EQ(refusal("devices=1.5"), "devices: '1.5' is not a number of devices from 1 to 1024");
    EXPECT_EQ(refusal("mem=lots"), "mem: 'lots' is not a number of bytes such as 4G");
    EXPECT_EQ(refusal("mem=4X"), "mem: '4X' is not a number of bytes such as 4G");
    EXPECT_EQ(refusal("mem=-1G"), "mem: '-1G' is not a number of bytes such as 4G");
    EXPECT_EQ(refusal("mem="), "mem: '' is not a number of bytes such as 4G");
    EXPECT_EQ(refusal("flops=0"), "flops: '0' is not a rate such as 20T");
    EXPECT_EQ(refusal("flops=nan"), "flops: 'nan' is not a rate such as 20T");
    EXPECT_EQ(refusal("latency=5"), "latency: '5' is not a time such as 10us");
    EXPECT_EQ(refusal("pinned=2"), "pinned: '2' is not 0 or 1");
    EXPECT_EQ(refusal("ops=all,-NOSUCH"), "ops: there is no op 'NOSUCH'");
    EXPECT_EQ(refusal("ops=CUSTOM"), "ops: CUSTOM calls a function that only the CPU can call");
    EXPECT_EQ(refusal("mem=1G,"), "there is nothing behind the last comma");
    EXPECT_TRUE(refusal("many").starts_with("there is no parameter 'many'; there are devices, mem"))
        << refusal("many");
    EXPECT_TRUE(refusal("mem=1G,,link=1G").starts_with("there is no parameter ''"));
}

TEST(SimParameters, RefusesFaultsThatMakeNoSense) {
    EXPECT_TRUE(parse_faults(""));
    EXPECT_TRUE(parse_faults("alloc=3,copy=2,node=10,lost=1.5ms"));
    EXPECT_EQ(parse_faults("alloc=0").error().message, "alloc: '0' is not a count such as 3");
    EXPECT_EQ(parse_faults("lost=-1s").error().message, "lost: '-1s' is not a time such as 10us");
    EXPECT_EQ(parse_faults("mem=1G").error().message,
              "there is no fault 'mem=1G'; there are alloc, copy, node, lost, each with a value");
}

}  // namespace
}  // namespace heddle::sim
