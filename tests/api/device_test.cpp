#include <cmath>

#include "test_support.hpp"

namespace heddle {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

TEST(Devices, AreListedWithTheProcessorAmongThem) {
    const Device cpu = must(Device::cpu());
    EXPECT_THAT(Device::all(), Contains(cpu));
    EXPECT_TRUE(cpu.is_cpu());
    EXPECT_FALSE(cpu.description().empty());
    EXPECT_GT(cpu.memory().total, 0u);
    EXPECT_EQ(must(Device::find("cpu")), cpu);
}

TEST(Devices, ThatAreNotThereAreAnsweredWithThoseThatAre) {
    const auto device = Device::find("loom9");
    ASSERT_FALSE(device);
    EXPECT_EQ(device.error().code, Errc::not_found);
    EXPECT_THAT(device.error().message, testing::AllOf(HasSubstr("'loom9'"), HasSubstr("CPU")));
}

TEST(Devices, AreMadeFromParameters) {
    const auto devices = must(Device::find_all("sim:devices=3,mem=1M"));
    EXPECT_THAT(devices, SizeIs(3));
    EXPECT_EQ(devices[2].name(), "SIM2");
    EXPECT_EQ(devices[0].memory().total, std::size_t{1} << 20);
    EXPECT_THAT(must(Device::find_all("CPU")), SizeIs(1));
    EXPECT_FALSE(Device::find_all("sim:devices=many"));
}

TEST(Devices, SayWhatIsWrongWithTheirParameters) {
    EXPECT_EQ(said(Device::find("sim:mem=-1")),
              "sim: does not accept the parameters 'mem=-1': mem: '-1' is not a number of bytes "
              "such as 4G");
    for (const char* parameters :
         {"mem", "mem=", "mem=4Q", "devices=0", "devices=1.5", "latency=10", "loom=1", "ops=LOOM",
          "mem=1G,", "flops=nan", "trace=2", "lost=", "node=-3", ",", "=1"}) {
        EXPECT_THAT(said(Device::find(std::string("sim:") + parameters)),
                    testing::StartsWith(std::string("sim: does not accept the parameters '") +
                                        parameters + "': "));
    }
}

TEST(Devices, SayWhyTheyDeclineANode) {
    const Device sim = must(Device::find("sim:ops=all,-SQR"));
    Context context = must(Context::make());
    const Tensor x = context.tensor(GGML_TYPE_F32, {4}, "x");
    EXPECT_TRUE(sim.supports(sqrt(x)));
    EXPECT_EQ(sim.objection(sqrt(x)), "");
    EXPECT_FALSE(sim.supports(sqr(x)));
    EXPECT_NE(sim.objection(sqr(x)), "");
    EXPECT_NE(sim.objection(Tensor()), "");
}

TEST(Streams, ComputeGraphsOnTheirDevice) {
    for (const Device& device : {must(Device::cpu()), must(Device::find("sim:devices=1"))}) {
        Context context = must(Context::make());
        const Tensor a = context.tensor(GGML_TYPE_F32, {2}, "a");
        const Graph graph = must(Graph::of(context, a * 2.0f + 1.0f));
        const Buffer memory = must(Buffer::for_all(context, device));
        must(write<float>(a, {1, 2}));
        Stream stream = must(device.start());
        EXPECT_EQ(stream.device(), device);
        must(stream.compute(graph));
        must(stream.wait());
        EXPECT_THAT(must(read<float>(graph.result())), ElementsAre(3, 5)) << device.name();
    }
}

TEST(Streams, FailWhereTheDeviceHasNotEnoughMemory) {
    const Device sim = must(Device::find("sim:mem=1M"));
    Context context = must(Context::make());
    context.tensor(GGML_TYPE_F32, {1 << 20}, "x");
    const auto buffer = Buffer::for_all(context, sim);
    ASSERT_FALSE(buffer);
    EXPECT_EQ(buffer.error().code, Errc::out_of_memory);
}

TEST(Streams, AreComparedNodeByNode) {
    const Device cpu = must(Device::cpu()), sim = must(Device::find("sim:devices=1"));
    Context context = must(Context::make());
    const Tensor x = context.tensor(GGML_TYPE_F32, {4}, "x");
    const Graph graph = must(Graph::of(context, sqrt(sqr(x).named("square")).named("root")));
    const Buffer memory = must(Buffer::for_all(context, cpu));
    must(write<float>(x, {1, 2, 3, INFINITY}));
    const auto differences = must(compare(must(cpu.start()), must(sim.start()), graph));
    ASSERT_THAT(differences, SizeIs(2));
    EXPECT_EQ(differences[0].node, "square");
    EXPECT_EQ(differences[0].op, "SQR");
    EXPECT_EQ(differences[1].node, "root");
    for (const Difference& each : differences) EXPECT_EQ(each.error, 0) << each.node;
}

TEST(Streams, TellNodesThatDiffer) {
    const Device cpu = must(Device::cpu()), sim = must(Device::find("sim:node=2"));
    Context context = must(Context::make());
    const Tensor x = context.tensor(GGML_TYPE_F32, {4}, "x");
    const Graph graph = must(Graph::of(context, sqrt(sqr(x))));
    const Buffer memory = must(Buffer::for_all(context, cpu));
    must(write<float>(x, {1, 2, 3, 4}));
    const auto differences = compare(must(cpu.start()), must(sim.start()), graph);
    EXPECT_NE(said(differences), "succeeded") << "the second node fails there";
}

TEST(Streams, TakeThreadsWhereThereAreSome) {
    Stream stream = must(must(Device::cpu()).start());
    EXPECT_TRUE(stream.set_threads(2));
    EXPECT_FALSE(must(must(Device::find("sim:devices=1")).start()).set_threads(2));
}

}  // namespace
}  // namespace heddle
