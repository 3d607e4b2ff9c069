// Texts that are read in several parts, over several devices.

#include "model/generator.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "heddle/sim.h"

namespace heddle::tool {
namespace {

constexpr std::size_t kPart = 32, kParts = 14;

/// Four devices that are slow enough for copies between them not to matter.
class PartsOfAText : public testing::Test {
protected:
    void SetUp() override {
        auto opened = open_model(HEDDLE_SHIPPED "/tales-7m-q8_0.gguf");
        auto found = Device::find_all("sim:devices=4,flops=100G,latency=1us");
        if (!opened || !found) GTEST_SKIP() << "no model, or no simulated devices";
        file = *std::move(opened);
        devices = *std::move(found);
        for (std::size_t i = 0; i < kPart * kParts; ++i) {
            text.push_back(static_cast<Token>(3 + 17 * i % 400));
        }
    }
    void TearDown() override {
        for (const Device& device : devices) fail(device, nullptr);
    }

    std::unique_ptr<Generator> load() {
        Generator::Options options;
        for (const Device& device : devices) options.rooms.push_back({device});
        options.threads = 1;
        options.context = 512;
        options.batch = kPart;
        options.on_loss = [&](const LeftOut& one) { lost.push_back(one.device); };
        auto loaded = Generator::load(file, options);
        EXPECT_TRUE(loaded) << loaded.error().message;
        return loaded ? *std::move(loaded) : nullptr;
    }

    static std::vector<float> logits_of(Generator& generator, std::span<const Token> tokens) {
        const auto logits = generator.read(tokens);
        EXPECT_TRUE(logits) << logits.error().message;
        if (!logits) return {};
        return {logits->begin(), logits->end()};
    }

    std::vector<float> read_one_by_one(Generator& generator) const {
        std::vector<float> logits;
        for (std::size_t i = 0; i < kParts; ++i) {
            logits = logits_of(generator, std::span(text).subspan(i * kPart, kPart));
        }
        return logits;
    }

    static void fail(const Device& device, const char* plan) {
        const auto set = device.function<heddle_sim_fail_t>("heddle_sim_fail");
        ASSERT_NE(set, nullptr);
        EXPECT_TRUE(set(device.c(), plan));
    }

    /// Virtual seconds at which everything is done.
    double time() const {
        const auto clock = devices.front().function<heddle_sim_clock_t>("heddle_sim_clock");
        double latest = clock(nullptr);
        for (const Device& device : devices) latest = std::max(latest, clock(device.c()));
        return latest;
    }

    SharedModelFile file;
    std::vector<Device> devices;
    std::vector<Token> text;
    std::vector<std::string> lost;
};

TEST_F(PartsOfAText, AreOnSeveralDevicesAtTheSameTime) {
    const auto generator = load();
    ASSERT_NE(generator, nullptr);
    const auto& places = generator->model().places();
    ASSERT_GE(std::set<std::string>(places.begin(), places.end()).size(), 4u);
    logits_of(*generator, text);  // what happens only once
    generator->forget();

    double begin = time();
    const auto expected = read_one_by_one(*generator);
    const double one_by_one = time() - begin;
    generator->forget();
    begin = time();
    const auto logits = logits_of(*generator, text);
    const double together = time() - begin;

    EXPECT_EQ(logits, expected) << "to the bit";
    const auto schedule = generator->scheduler().explain();
    ASSERT_TRUE(schedule) << schedule.error().message;
    EXPECT_THAT(*schedule, testing::HasSubstr("in 5 splits on 5 devices, 16 copies"))
        << "three inputs for each of four devices, and one value";
    std::printf("%.2f of the time one by one\n", together / one_by_one);
    EXPECT_LT(together, one_by_one / 2);
}

TEST_F(PartsOfAText, AreReadAgainWhenADeviceIsLost) {
    const auto whole = load();
    ASSERT_NE(whole, nullptr);
    const auto expected = logits_of(*whole, text);
    for (const char* how : {"lost=0s", "node=100", "copy=5"}) {
        SCOPED_TRACE(how);
        lost.clear();
        const auto generator = load();
        ASSERT_NE(generator, nullptr);
        fail(devices[2], how);
        EXPECT_EQ(logits_of(*generator, text), expected) << "to the bit";
        EXPECT_THAT(lost, testing::ElementsAre("SIM2"));
        EXPECT_EQ(generator->position(), static_cast<std::int64_t>(text.size()));
        fail(devices[2], nullptr);
    }
}

TEST_F(PartsOfAText, MayBeStoppedInBetween) {
    const auto generator = load();
    ASSERT_NE(generator, nullptr);
    const auto expected = logits_of(*generator, text);
    generator->forget();
    int asked = 0;
    const auto stopped = generator->read(text, [&] { return ++asked == 3; });
    ASSERT_TRUE(stopped) << stopped.error().message;
    EXPECT_TRUE(stopped->empty());
    ASSERT_EQ(generator->position(), static_cast<std::int64_t>(3 * kPart));
    EXPECT_EQ(logits_of(*generator, std::span(text).subspan(3 * kPart)), expected);
}

}  // namespace
}  // namespace heddle::tool
