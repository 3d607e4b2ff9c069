// A client in the manner of llama.cpp while calls of the driver fail: each of them once, from
// loading to decoding, and all from one on, as if the device were lost. Needs a device.

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "backends/cuda/client_test_support.hpp"
#include "backends/cuda/driver.hpp"

namespace heddle::cuda {
namespace {

std::vector<int> first_device() {
    if (ggml_backend_cuda_get_device_count() == 0) return {};
    return {0};
}

class Swept : public testing::TestWithParam<int> {
protected:
    void SetUp() override { heddle_set_error_mode(HEDDLE_ERROR_MODE_RETURN); }
    void TearDown() override { fail_after(-1); }
};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Swept);
INSTANTIATE_TEST_SUITE_P(First, Swept, testing::ValuesIn(first_device()));

/// What `attempt` gives, the second time if it fails at first, which must not happen without a
/// word.
template <class Attempt>
auto again(const char* what, Attempt&& attempt) {
    heddle_clear_error();
    auto done = attempt();
    if (done) return done;
    EXPECT_NE(std::string(heddle_last_error()), "") << what << " failed without a word";
    heddle_clear_error();
    done = attempt();
    EXPECT_TRUE(done) << what << " again: " << heddle_last_error();
    return done;
}

bool nothing_was_said() { return *heddle_last_error() == '\0'; }

/// Logits of a prompt, of tokens one by one and of one after the state was restored.
std::vector<float> live_through(int number) {
    const auto client = again("loading", [&] { return Client::load(number); });
    if (client == nullptr) return {};
    std::vector<float> all;
    const auto read = [&](const std::vector<std::int32_t>& tokens, int position) {
        const auto logits = again("reading", [&] { return client->try_read(tokens, position); });
        if (logits) all.insert(all.end(), logits->begin(), logits->end());
    };
    read(prompt_of(20), 0);
    // Directly, captured, and replayed.
    for (int i = 0; i < 4; ++i) read({(31 * i + 7) % kWords}, 20 + i);
    Model::State state;
    again("saving", [&] {
        state = client->model().save();
        return nothing_was_said();
    });
    again("restoring", [&] {
        client->model().restore(state);
        return nothing_was_said();
    });
    read({5}, 24);
    return all;
}

/// The scheduler leaves a device that failed out for a run, so some of the logits may be the CPU's:
/// as far off as that is (see client_test). Infinite if there are not as many.
double difference(const std::vector<float>& logits, const std::vector<float>& right) {
    if (logits.size() != right.size()) return INFINITY;
    double apart = 0, size = 0;
    for (std::size_t i = 0; i < right.size(); ++i) {
        apart += std::pow(double{logits[i]} - right[i], 2);
        size += std::pow(double{right[i]}, 2);
    }
    return apart / size;
}

TEST_P(Swept, EveryCallOfTheDriverMayFailOnce) {
    fail_after(-1);
    const std::vector<float> right = live_through(GetParam());
    const std::int64_t calls = fail_after(-1);
    ASSERT_FALSE(HasFailure());
    ASSERT_GT(calls, 200) << "memory, copies, launches, waits";
    for (std::int64_t n = 0; n < calls; ++n) {
        fail_after(n);
        EXPECT_LT(difference(live_through(GetParam()), right), 5e-3)
            << "call " << n << " of " << calls << " failed";
        EXPECT_GE(fail_after(-1), n) << "nothing failed";
        if (HasFailure()) return;  // one is enough to look at
    }
    std::printf("%lld calls of the driver failed once each\n", static_cast<long long>(calls));
}

/// Whether a client that is loaded and reads comes to the end.
bool comes_through(int number) {
    heddle_clear_error();
    const auto client = Client::load(number);
    if (client == nullptr) return false;
    if (!client->try_read(prompt_of(20), 0)) return false;
    for (int i = 0; i < 4; ++i) {
        if (!client->try_read({(31 * i + 7) % kWords}, 20 + i)) return false;
    }
    return true;
}

TEST_P(Swept, ADeviceThatIsLostIsASentenceAndTheCpuGoesOn) {
    fail_after(-1);
    const auto alone = Client::load(-1);
    ASSERT_NE(alone, nullptr) << heddle_last_error();
    const std::vector<float> right = alone->read(prompt_of(20), 0);
    ASSERT_TRUE(comes_through(GetParam())) << heddle_last_error();
    const std::int64_t calls = fail_after(-1);
    for (std::int64_t n = 0; n < calls; n += 1 + n / 16) {
        fail_after(n, Fault::for_good);
        if (!comes_through(GetParam())) {
            EXPECT_NE(std::string(heddle_last_error()), "") << "call " << n;
        }
        EXPECT_EQ(alone->read(prompt_of(20), 0), right) << "call " << n;
        EXPECT_GE(fail_after(-1), n) << "nothing failed";
    }
    EXPECT_TRUE(comes_through(GetParam())) << heddle_last_error();
}

}  // namespace
}  // namespace heddle::cuda
