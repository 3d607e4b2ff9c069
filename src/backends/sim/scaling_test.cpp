// Devices on several machines: a model spread over them takes as long as the formulas of
// docs/cluster.md say.
#include "backends/sim/test_support.hpp"
#include "ggml/ops_reduce.h"

namespace heddle::sim {
namespace {

constexpr double kMemory = 80e9, kNet = 1.17e9, kHop = 30e-6;  // as configured below
constexpr std::int64_t kWidth = 512;
constexpr double kWeights = 4.0 * kWidth * kWidth, kHidden = 4.0 * kWidth;

bool configure_hosts(int count) {
    const std::string number = std::to_string(count);
    return configure(
        "trace=0,numbers=0,flops=1000000T,latency=0s,membw=80G,link=1000G,net=1.17G,"
        "hop=30us,mem=64M,devices=" +
        number + ",hosts=" + number);
}

/// One layer on each of `count` devices, each on a host of its own.
class Pipeline {
public:
    explicit Pipeline(std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) {
            const auto type = ggml_backend_dev_buffer_type(device(i));
            Stage& stage = stages_.emplace_back();
            stage.bench = std::make_unique<Bench>();
            stage.stream.reset(ggml_backend_dev_init(device(i), nullptr));
            ggml_tensor* const weights = stage.bench->matrix(kWidth, kWidth, type);
            stage.in = stage.bench->matrix(kWidth, 1, type);
            stage.out =
                stage.bench->place(ggml_mul_mat(stage.bench->context(), weights, stage.in), type);
            stage.graph = stage.bench->graph({stage.out});
        }
    }

    /// A token from the first device to the last.
    void pass() {
        for (std::size_t i = 0; i < stages_.size(); ++i) {
            Stage& stage = stages_[i];
            if (i > 0) {
                ggml_backend_tensor_copy_async(stages_[i - 1].stream.get(), stage.stream.get(),
                                               stages_[i - 1].out, stage.in);
            }
            ASSERT_EQ(ggml_backend_graph_compute_async(stage.stream.get(), stage.graph),
                      GGML_STATUS_SUCCESS);
        }
    }

private:
    struct Stage {
        std::unique_ptr<Bench> bench;
        Stream stream;
        ggml_tensor *in = nullptr, *out = nullptr;
        ggml_cgraph* graph = nullptr;
    };
    std::vector<Stage> stages_;
};

TEST(SimScaling, APipelineTakesAsLongAsItsStagesAndHops) {
    for (const int count : {2, 8, 80, 1024}) {
        ASSERT_TRUE(configure_hosts(count)) << heddle_last_error();
        Pipeline pipeline(static_cast<std::size_t>(count));
        pipeline.pass();
        const double stages = count, hops = count - 1;
        const double expected = stages * kWeights / kMemory + hops * (kHop + kHidden / kNet);
        const double found = clock_of(device(static_cast<std::size_t>(count - 1)));
        EXPECT_NEAR(found, expected, 0.05 * expected) << count << " hosts";
    }
}

TEST(SimScaling, SeveralTokensFillAPipeline) {
    constexpr int kHosts = 16, kTokens = 64;
    ASSERT_TRUE(configure_hosts(kHosts)) << heddle_last_error();
    Pipeline pipeline(kHosts);
    for (int token = 0; token < kTokens; ++token) pipeline.pass();
    // Once it is full, a stage takes in a token, computes and passes it on, over and over: it has
    // one stream for all three.
    const double hop = kHop + kHidden / kNet, stage = kWeights / kMemory;
    const double first = kHosts * stage + (kHosts - 1) * hop;
    const double expected = first + (kTokens - 1) * (stage + 2 * hop);
    const double found = clock_of(device(kHosts - 1));
    EXPECT_NEAR(found, expected, 0.05 * expected);
    EXPECT_LT(found, 0.2 * kTokens * first) << "stages work side by side";
}

TEST(SimScaling, HostsHaveOneNetworkEach) {
    ASSERT_TRUE(configure("numbers=0,latency=0s,link=1000G,net=1M,hop=1ms,devices=4,hosts=2"));
    Bench bench;
    ggml_tensor* parts[4];
    Stream streams[4];
    for (std::size_t i = 0; i < 4; ++i) {
        parts[i] = bench.vector(1000, ggml_backend_dev_buffer_type(device(i)));
        streams[i].reset(ggml_backend_dev_init(device(i), nullptr));
    }
    // Two copies from host 0 to host 1: one after the other over the one network.
    ggml_backend_tensor_copy_async(streams[0].get(), streams[2].get(), parts[0], parts[2]);
    ggml_backend_tensor_copy_async(streams[1].get(), streams[3].get(), parts[1], parts[3]);
    constexpr double kCopy = 1e-3 + 4000 / 1e6;
    EXPECT_NEAR(clock_of(device(2)), kCopy, 1e-9);
    EXPECT_NEAR(clock_of(device(3)), 2 * kCopy, 1e-9);
}

TEST(SimScaling, MoreHostsThanDevicesAreRefused) {
    EXPECT_FALSE(configure("devices=2,hosts=3"));
    EXPECT_NE(std::string(heddle_last_error()).find("hosts=3 for 2 devices"), std::string::npos);
    EXPECT_TRUE(configure("devices=1"));
}

}  // namespace
}  // namespace heddle::sim
