#include "sched/plan/constant_cache.hpp"

#include "runtime/transfer.hpp"
#include "sched/plan/test_support.hpp"

namespace heddle::sched {
namespace {

class ConstantCacheTest : public test::PlanTest {
protected:
    void SetUp() override { use("devices=2,mem=64K", 2); }

    static constexpr std::size_t kBytes = 16 * 16 * sizeof(float);

    Budgets bytes(std::size_t amount) { return {{.kind = Budget::Kind::bytes, .amount = amount}}; }
};

TEST_F(ConstantCacheTest, KeepsOneEntryForEachTensorAndRunner) {
    Tensor* a = weight("a", host());
    Tensor* b = weight("b", host());
    constants_->begin_plan();
    const auto* entry = constants_->find_or_make(*a, 0);
    ASSERT_NE(entry, nullptr);
    EXPECT_EQ(entry->generation, 0u);
    EXPECT_EQ(entry->buffer->buft, on(0));
    EXPECT_NE(constants_->find_or_make(*b, 0), entry);
    EXPECT_NE(constants_->find_or_make(*a, 1), entry);
    constants_->begin_plan();
    EXPECT_EQ(constants_->find_or_make(*a, 0), entry);
    EXPECT_EQ(constants_->bytes_on(0), 2 * kBytes);
    constants_->clear(0);
    EXPECT_EQ(constants_->bytes_on(0), 0u);
    EXPECT_EQ(constants_->bytes_on(1), kBytes);
}

TEST_F(ConstantCacheTest, EntriesOfOlderPlansMakeRoom) {
    Tensor* a = weight("a", host());
    Tensor* b = weight("b", host());
    Tensor* c = weight("c", host());
    constants_->set_budgets(bytes(2 * kBytes));
    constants_->begin_plan();
    ASSERT_NE(constants_->find_or_make(*a, 0), nullptr);
    constants_->begin_plan();
    const auto* kept = constants_->find_or_make(*b, 0);
    ASSERT_NE(kept, nullptr);
    EXPECT_TRUE(constants_->has(*a, 0));
    EXPECT_NE(constants_->find_or_make(*c, 0), nullptr);
    EXPECT_FALSE(constants_->has(*a, 0)) << "the oldest goes first";
    EXPECT_EQ(constants_->find_or_make(*a, 0), nullptr) << "the rest is in use";
    EXPECT_EQ(constants_->find_or_make(*b, 0), kept);
}

TEST_F(ConstantCacheTest, TakesHalfOfWhatIsFreeByDefault) {
    constants_->begin_plan();
    int made = 0;
    for (int i = 0; i < 64; ++i) {
        if (constants_->find_or_make(*weight("w", host()), 0) != nullptr) ++made;
    }
    EXPECT_EQ(made, 32);
    constants_->begin_plan();
    EXPECT_EQ(constants_->capacity_on(0), 32 * kBytes) << "its own entries do not count twice";
}

TEST_F(ConstantCacheTest, LeavesRoomForResultsThatAreComing) {
    constants_->set_budgets(bytes(4 * kBytes));
    constants_->begin_plan({kBytes}, {2 * kBytes});
    EXPECT_NE(constants_->find_or_make(*weight("a", host()), 0), nullptr);
    EXPECT_EQ(constants_->find_or_make(*weight("b", host()), 0), nullptr);
}

TEST_F(ConstantCacheTest, DevicesWithoutMemoryAreNoFailure) {
    constants_->set_budgets(bytes(1 << 30));
    constants_->begin_plan();
    EXPECT_EQ(constants_->find_or_make(*weight("w", host(), {256, 256}), 0), nullptr);
}

TEST_F(ConstantCacheTest, TensorsWithoutABufferAreNotKept) {
    float values[4] = {};
    Tensor* x = floats({4}, "x");
    x->data = values;
    constants_->begin_plan();
    EXPECT_EQ(constants_->find_or_make(*x, 0), nullptr);
}

TEST(Budget, CountsWhatIsLeft) {
    const DeviceMemory memory{.free = 600, .total = 1000};
    using Kind = Budget::Kind;
    EXPECT_EQ((Budget{}.limit(memory, 0)), 300u);
    EXPECT_EQ((Budget{}.limit(memory, 200)), 200u);
    EXPECT_EQ((Budget{.kind = Kind::bytes, .amount = 500}.limit(memory, 200)), 300u);
    EXPECT_EQ((Budget{.kind = Kind::bytes, .amount = 500}.limit(memory, 501)), 0u);
    EXPECT_EQ((Budget{.kind = Kind::leave, .amount = 100}.limit(memory, 50)), 500u);
    EXPECT_EQ((Budget{.kind = Kind::leave, .amount = 700}.limit(memory, 0)), 0u);
}

TEST_F(ConstantCacheTest, ANewBufferIsNeverTakenForAnOldOne) {
    OwnedBuffer buffer = *allocate(*host(), 64);
    const std::uint64_t old = write_generation(*buffer);
    buffer.reset();
    buffer = *allocate(*host(), 64);
    EXPECT_GT(write_generation(*buffer), old);
}

}  // namespace
}  // namespace heddle::sched
