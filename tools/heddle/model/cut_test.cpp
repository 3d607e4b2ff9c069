#include "model/cut.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "heddle/sim.h"
#include "model/generator.hpp"

namespace heddle::tool {
namespace {

using Shares = std::vector<std::int64_t>;

class CutModel : public testing::Test {
protected:
    void SetUp() override {
        auto opened = open_model(HEDDLE_SHIPPED "/tales-7m-q8_0.gguf");
        if (!opened) GTEST_SKIP() << opened.error().message;
        file = *std::move(opened);
    }

    Result<Cut> cut_over(std::size_t count) const {
        HEDDLE_TRY_ASSIGN(const Device cpu, Device::cpu());
        return cut_of(*file, std::vector<Device>(count, cpu));
    }

    SharedModelFile file;
};

// ---- shares ------------------------------------------------------------------------------------

TEST_F(CutModel, IsHalvedWhereItCanBe) {
    const auto cut = cut_over(2);
    ASSERT_TRUE(cut) << cut.error().message;
    EXPECT_EQ(cut->queries, (Shares{128, 128}));
    EXPECT_EQ(cut->key_heads, (Shares{64, 64}));
    EXPECT_EQ(cut->hidden, (Shares{384, 384}));
    EXPECT_EQ(cut->words, (Shares{2048, 2048}));
}

TEST_F(CutModel, KeepsHeadsAndTheirQueriesWhole) {
    const auto cut = cut_over(3);
    ASSERT_TRUE(cut) << cut.error().message;
    EXPECT_EQ(cut->key_heads, (Shares{32, 32, 64})) << "four heads of 32 elements";
    EXPECT_EQ(cut->queries, (Shares{64, 64, 128})) << "two queries for each";
    EXPECT_EQ(cut->hidden, (Shares{256, 256, 256}));
    EXPECT_EQ(std::accumulate(cut->words.begin(), cut->words.end(), std::int64_t{0}),
              Shape::read(*file)->words);
    EXPECT_EQ(largest_part(*cut), 0.5) << "of attention";
}

TEST_F(CutModel, IsRefusedWhereADeviceWouldHaveNoHead) {
    EXPECT_TRUE(cut_over(4));
    const auto cut = cut_over(5);
    ASSERT_FALSE(cut);
    EXPECT_EQ(cut.error().message,
              "--join: " + file->path() +
                  " cannot be cut over 5 devices: it has 4 heads of keys and values, of which each "
                  "needs at least 1");
}

// ---- losses ------------------------------------------------------------------------------------

using Logits = std::vector<std::vector<float>>;

/// Three simulated devices, each of which can be made to fail.
class JoinedModel : public CutModel {
protected:
    void SetUp() override {
        CutModel::SetUp();
        auto found = Device::find_all("sim:devices=3");
        if (!found) GTEST_SKIP() << found.error().message;
        devices = *std::move(found);
    }
    void TearDown() override {
        for (const Device& device : devices) fail(device, nullptr);
    }

    static void fail(const Device& device, const char* plan) {
        const auto set = device.function<heddle_sim_fail_t>("heddle_sim_fail");
        ASSERT_NE(set, nullptr);
        EXPECT_TRUE(set(device.c(), plan));
    }

    std::unique_ptr<Generator> load(bool join) {
        Generator::Options options;
        for (const Device& device : devices) options.rooms.push_back({device});
        options.threads = 1;
        options.context = 64;
        options.join = join;
        options.on_loss = [&](const LeftOut& one) { lost.push_back(one.device); };
        auto loaded = Generator::load(file, options);
        EXPECT_TRUE(loaded) << loaded.error().message;
        return loaded ? *std::move(loaded) : nullptr;
    }

    /// The logits after some tokens that are read at once, and after each of some more; `before` is
    /// called before that.
    static Logits logits_of(Generator& generator,
                            const std::function<void(std::size_t)>& before = {}) {
        std::vector<Token> next{400, 17, 33, 250};
        Logits all;
        for (std::size_t step = 0; step < 16; ++step) {
            if (before) before(step);
            const auto logits = generator.read(next);
            EXPECT_TRUE(logits) << logits.error().message;
            if (!logits) break;
            all.emplace_back(logits->begin(), logits->end());
            next = {static_cast<Token>(300 + 7 * step)};
        }
        return all;
    }

    /// Columns are rounded to blocks of eight bits to be multiplied, which mostly hides that they
    /// were added up in another order. Where it does not, an element is another one by the 127th
    /// part of the largest in its block. Logits go from -20 to 10.
    static void expect_close(const Logits& got, const Logits& expected) {
        ASSERT_EQ(got.size(), expected.size());
        for (std::size_t step = 0; step < got.size(); ++step) {
            ASSERT_EQ(got[step].size(), expected[step].size());
            std::size_t far = 0;
            for (std::size_t i = 0; i < got[step].size(); ++i) {
                const bool is_close = std::abs(got[step][i] - expected[step][i]) < 0.5f;
                far += is_close ? 0 : 1;  // which no NaN is
            }
            EXPECT_EQ(far, 0u) << "step " << step;
        }
    }

    std::vector<Device> devices;
    std::vector<std::string> lost;
};

TEST_F(JoinedModel, HasTheRoomThatItsSmallestDeviceAllows) {
    const auto cpu = Device::cpu();
    ASSERT_TRUE(cpu) << cpu.error().message;
    const auto memory = [](const Device& device) {
        return static_cast<double>(device.properties().memory_free);
    };
    const auto [small, large] = std::minmax(
        *cpu, devices.front(), [&](const auto& a, const auto& b) { return memory(a) < memory(b); });
    auto cut = cut_of(*file, {large, small});
    ASSERT_TRUE(cut) << cut.error().message;
    const Room room{.device = large, .cut = std::make_shared<const Cut>(*std::move(cut))};
    // Each has a half of every layer. Other programs take and give back memory meanwhile.
    EXPECT_NEAR(static_cast<double>(free_memory(room)), 2 * memory(small), memory(small) / 8);
}

TEST_F(JoinedModel, HasTheLogitsOfOneThatIsNot) {
    const auto alone = load(false), joined = load(true);
    EXPECT_THAT(alone->joined(), testing::IsEmpty());
    EXPECT_THAT(joined->joined(), testing::ElementsAre("SIM0", "SIM1", "SIM2"));
    EXPECT_THAT(joined->model().places(), testing::Each("Meta(SIM0,SIM1,SIM2)"));
    expect_close(logits_of(*joined), logits_of(*alone));
}

TEST_F(JoinedModel, HasTheSameLogitsEveryTime) {
    EXPECT_EQ(logits_of(*load(true)), logits_of(*load(true))) << "to the bit";
}

TEST_F(JoinedModel, BlamesTheDeviceThatIsNamedIfAllAnswer) {
    const auto blamed = [&](const std::string& message) {
        std::vector<std::string> names;
        for (const Fault& fault : faults_among(devices, message)) {
            names.push_back(fault.device.name());
        }
        return names;
    };
    EXPECT_THAT(blamed("SIM1: was lost"), testing::ElementsAre("SIM1"));
    EXPECT_THAT(blamed("nodes 'a' to 'b': SIM2: was lost"), testing::ElementsAre("SIM2"));
    EXPECT_THAT(blamed("MPI1:SIM1: was lost"), testing::SizeIs(3)) << "another machine's";
}

TEST_F(JoinedModel, GoesOnOverThoseThatAreLeft) {
    const Logits expected = logits_of(*load(false));
    for (const char* how : {"lost=0s", "node=100", "copy=5"}) {
        SCOPED_TRACE(how);
        lost.clear();
        const auto joined = load(true);
        const auto fail_one = [&](std::size_t step) {
            if (step == 5) fail(devices[1], how);
        };
        expect_close(logits_of(*joined, fail_one), expected);
        EXPECT_THAT(lost, testing::ElementsAre("SIM1"));
        EXPECT_THAT(joined->joined(), testing::ElementsAre("SIM0", "SIM2"));
        EXPECT_THAT(joined->model().places(), testing::Each("Meta(SIM0,SIM2)"));
        fail(devices[1], nullptr);
    }
}

TEST_F(JoinedModel, GoesOnAloneAndAtLastOnTheProcessor) {
    const Logits expected = logits_of(*load(false));
    const auto joined = load(true);
    std::vector<std::string> places;
    const auto fail_others = [&](std::size_t step) {
        places.push_back(joined->model().places().front());
        if (step == 3) fail(devices[2], "lost=0s");
        if (step == 6) fail(devices[0], "lost=0s");
        if (step == 9) fail(devices[1], "lost=0s");
    };
    expect_close(logits_of(*joined, fail_others), expected);
    EXPECT_THAT(lost, testing::ElementsAre("SIM2", "SIM0", "SIM1"));
    ASSERT_EQ(places.size(), 16u);
    EXPECT_EQ(places[3], "Meta(SIM0,SIM1,SIM2)");
    EXPECT_EQ(places[6], "Meta(SIM0,SIM1)");
    EXPECT_EQ(places[9], "SIM1");
    EXPECT_EQ(places[12], "CPU");
    EXPECT_THAT(joined->joined(), testing::IsEmpty());
}

}  // namespace
}  // namespace heddle::tool
