// A client in the manner of llama.cpp on every CUDA device there is: its state is saved and
// restored.

#include <gtest/gtest.h>

#include <regex>
#include <stdexcept>
#include <string>

#include "backends/cuda/client_test_support.hpp"
#include "heddle/sched.h"

namespace heddle::cuda {
namespace {

std::vector<int> all_devices() {
    std::vector<int> numbers;
    for (int i = 0; i < ggml_backend_cuda_get_device_count(); ++i) numbers.push_back(i);
    return numbers;
}

class OnDevice : public testing::TestWithParam<int> {
protected:
    void SetUp() override { heddle_set_error_mode(HEDDLE_ERROR_MODE_RETURN); }
};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(OnDevice);
INSTANTIATE_TEST_SUITE_P(All, OnDevice, testing::ValuesIn(all_devices()));

std::unique_ptr<Client> loaded(int number) {
    auto client = Client::load(number);
    if (client == nullptr) throw std::runtime_error(heddle_last_error());
    return client;
}

TEST_P(OnDevice, LogitsAreTheSameBitsAfterStateIsRestored) {
    const auto client = loaded(GetParam());
    client->read(prompt_of(20), 0);
    const Model::State state = client->model().save();
    const auto first = decode(*client, 20, 6);
    client->model().clear_caches(0xff);  // what no token sees may be NaN
    client->model().restore(state);
    EXPECT_EQ(decode(*client, 20, 6), first);

    const auto other = loaded(GetParam());  // as another process would
    other->model().restore(state);
    EXPECT_EQ(decode(*other, 20, 6), first);
}

TEST_P(OnDevice, ReusedGraphsGiveTheSameBitsAsNewOnes) {
    const auto reusing = loaded(GetParam()), building = loaded(GetParam());
    building->reuses = false;
    EXPECT_EQ(reusing->read(prompt_of(9), 0), building->read(prompt_of(9), 0));
    EXPECT_EQ(decode(*reusing, 9, 8), decode(*building, 9, 8));
}

TEST_P(OnDevice, ATraceHasTimesOfTheDeviceAndChangesNoBit) {
    const auto plain = loaded(GetParam()), traced = loaded(GetParam());
    heddle_sched_set_tracing(traced->scheduler(), true);
    for (int round = 0; round < 3; ++round) {
        EXPECT_EQ(traced->read({5}, round), plain->read({5}, round));
    }
    const std::string schedule = heddle_sched_explain(traced->scheduler(), HEDDLE_EXPLAIN_JSON);
    const std::regex time("\"device_seconds\": *([0-9.e+-]+)");
    double total = 0;
    for (std::sregex_iterator at(schedule.begin(), schedule.end(), time), end; at != end; ++at) {
        total += std::stod((*at)[1]);
    }
    EXPECT_GT(total, 1e-6);
    EXPECT_LT(total, 1.0);
    heddle_sched_set_tracing(traced->scheduler(), false);
    EXPECT_EQ(traced->read({5}, 3), plain->read({5}, 3));
}

TEST_P(OnDevice, TextIsReadAsOnTheCpu) {
    for (const int length : {1, 5, 8, 9, 32}) {
        const auto client = loaded(GetParam()), right = loaded(-1);
        const std::vector<float> read = client->read(prompt_of(length), 0);
        const std::vector<float> expected_read = right->read(prompt_of(length), 0);
        auto all = decode(*client, length, 4), expected = decode(*right, length, 4);
        all.push_back(read);
        expected.push_back(expected_read);
        for (std::size_t step = 0; step < all.size(); ++step) {
            double difference = 0, size = 0;
            for (std::size_t i = 0; i < kWords; ++i) {
                const double apart = double{all[step][i]} - expected[step][i];
                difference += apart * apart;
                size += double{expected[step][i]} * expected[step][i];
            }
            // A last bit turns codes of activations over, and each layer makes more of it:
            // 5e-4 is what that comes to here.
            EXPECT_LT(difference / size, 2e-3) << length << " tokens, step " << step;
        }
    }
}

}  // namespace
}  // namespace heddle::cuda
