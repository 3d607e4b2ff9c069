#include "backends/sim/engine.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace heddle::sim {
namespace {

TEST(Engine, WorksOnWhatComesLaterWhileItWaits) {
    Engine engine;
    engine.occupy({5, 7});
    EXPECT_EQ(engine.free_from(0, 2), 0);
    EXPECT_EQ(engine.free_from(3, 2), 3);
    EXPECT_EQ(engine.free_from(4, 2), 7) << "not free for so long before";
    EXPECT_EQ(engine.free_from(6, 1), 7);
    engine.occupy({0, 5});
    EXPECT_EQ(engine.free_from(0, 0.5), 7);
    EXPECT_EQ(engine.end(), 7);
    engine.forget_before(7);
    EXPECT_EQ(engine.free_from(8, 1), 8);
    EXPECT_EQ(engine.end(), 7);
}

TEST(Engine, SeveralAreFreeAtTheSameTime) {
    Engine a, b;
    a.occupy({0, 2});
    b.occupy({3, 4});
    a.occupy({5, 6});
    EXPECT_EQ(free_from({&a, &b}, 0, 1), 2);
    EXPECT_EQ(free_from({&a, &b}, 0, 1.5), 6);
    EXPECT_EQ(free_from({}, 1, 9), 1);
}

TEST(Engine, NeverDoesTwoThingsAtATime) {
    std::mt19937 random(1);
    Engine engine;
    std::vector<Span> spans;
    for (int i = 0; i < 500; ++i) {
        const double duration = 1 + random() % 5;
        const double start = engine.free_from(random() % 1000, duration);
        for (const Span& other : spans) {
            EXPECT_TRUE(start + duration <= other.start || other.end <= start);
        }
        spans.push_back({start, start + duration});
        engine.occupy(spans.back());
    }
}

}  // namespace
}  // namespace heddle::sim
