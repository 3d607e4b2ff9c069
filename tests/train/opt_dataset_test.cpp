// Datasets: order, batches, and what is refused.
#include <algorithm>
#include <numeric>

#include "test_support.hpp"

namespace heddle::test {
namespace {

constexpr std::int64_t kAll = 12, kNumbers = 3, kLabels = 2;

/// Point i holds 10 i, 10 i + 1, 10 i + 2, its label 1000 + i twice.
DatasetPtr numbered(std::int64_t shard, std::int64_t points = kAll) {
    DatasetPtr made(
        ggml_opt_dataset_init(GGML_TYPE_F32, GGML_TYPE_F32, kNumbers, kLabels, points, shard));
    std::vector<float> data, labels;
    for (std::int64_t i = 0; i < points; ++i) {
        for (int k = 0; k < kNumbers; ++k) data.push_back(static_cast<float>(10 * i + k));
        for (int k = 0; k < kLabels; ++k) labels.push_back(static_cast<float>(1000 + i));
    }
    set_floats(ggml_opt_dataset_data(made.get()), data);
    set_floats(ggml_opt_dataset_labels(made.get()), labels);
    return made;
}

struct Batch {
    std::int64_t shard, batch;
};

class DatasetBatches : public testing::TestWithParam<std::tuple<std::string, Batch, bool>> {};

TEST_P(DatasetBatches, EveryPointComesOnceWithItsLabel) {
    const auto& [device, sizes, shuffled] = GetParam();
    Rig rig(device);
    ggml_tensor* data = rig.input(kNumbers, sizes.batch);
    ggml_tensor* labels = rig.input(kLabels, sizes.batch);
    rig.allocate_store();
    const DatasetPtr dataset = numbered(sizes.shard);
    const TrainingPtr training(
        ggml_opt_init(ggml_opt_default_params(rig.scheduler(), GGML_OPT_LOSS_TYPE_SUM)));
    if (shuffled) ggml_opt_dataset_shuffle(training.get(), dataset.get(), -1);
    std::vector<std::int64_t> seen;
    for (std::int64_t i = 0; i < kAll / sizes.batch; ++i) {
        ggml_opt_dataset_get_batch(dataset.get(), data, labels, i);
        const auto x = floats_of(data), y = floats_of(labels);
        std::vector<float> host_x(x.size()), host_y(y.size());
        ggml_opt_dataset_get_batch_host(dataset.get(), host_x.data(), x.size() * sizeof(float),
                                        host_y.data(), i);
        EXPECT_EQ(host_x, x);
        EXPECT_EQ(host_y, y);
        for (std::int64_t k = 0; k < sizes.batch; ++k) {
            const auto point = static_cast<std::int64_t>(x[std::size_t(k * kNumbers)]) / 10;
            EXPECT_EQ(x[std::size_t(k * kNumbers + 2)], static_cast<float>(10 * point + 2));
            EXPECT_EQ(y[std::size_t(k * kLabels)], static_cast<float>(1000 + point));
            EXPECT_EQ(y[std::size_t(k * kLabels + 1)], static_cast<float>(1000 + point));
            // Points of a shard stay together.
            const bool is_first = k % sizes.shard == 0;
            EXPECT_TRUE(is_first || point == seen.back() + 1) << point;
            seen.push_back(point);
        }
    }
    std::vector<std::int64_t> all(kAll);
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(seen != all, shuffled && sizes.shard < kAll);
    std::ranges::sort(seen);
    EXPECT_EQ(seen, all);
}

constexpr Batch kBatches[] = {{1, 1}, {1, 2}, {1, 6}, {2, 2}, {2, 4}, {3, 3}, {3, 6}, {12, 12}};
INSTANTIATE_TEST_SUITE_P(All, DatasetBatches,
                         testing::Combine(testing::Values("CPU", "sim:"),
                                          testing::ValuesIn(kBatches), testing::Bool()));

TEST(Dataset, HasTheShapesThatWereAskedFor) {
    const DatasetPtr dataset(ggml_opt_dataset_init(GGML_TYPE_I32, GGML_TYPE_F32, 5, 3, 7, 2));
    EXPECT_EQ(ggml_opt_dataset_ndata(dataset.get()), 7);
    const ggml_tensor* data = ggml_opt_dataset_data(dataset.get());
    EXPECT_EQ(data->type, GGML_TYPE_I32);
    EXPECT_EQ(data->ne[0], 5);
    EXPECT_EQ(data->ne[1], 7);
    EXPECT_NE(data->data, nullptr);
    EXPECT_EQ(ggml_opt_dataset_labels(dataset.get())->ne[0], 3);
    const DatasetPtr bare(ggml_opt_dataset_init(GGML_TYPE_F32, GGML_TYPE_F32, 5, 0, 7, 2));
    EXPECT_EQ(ggml_opt_dataset_labels(bare.get()), nullptr);
}

TEST(Dataset, ShufflesOnlyWhatItIsTold) {
    const Rig rig("CPU");
    const auto order_after = [&](std::int64_t first) {
        const DatasetPtr dataset = numbered(2);
        const TrainingPtr training(
            ggml_opt_init(ggml_opt_default_params(rig.scheduler(), GGML_OPT_LOSS_TYPE_SUM)));
        ggml_opt_dataset_shuffle(training.get(), dataset.get(), first);
        std::vector<float> data(kAll * kNumbers), labels(kAll * kLabels);
        ggml_opt_dataset_get_batch_host(dataset.get(), data.data(), data.size() * sizeof(float),
                                        labels.data(), 0);
        return labels;
    };
    const auto part = order_after(8);
    EXPECT_EQ(part[8 * kLabels], 1008);
    EXPECT_EQ(part[11 * kLabels], 1011);
    EXPECT_TRUE(std::is_sorted(part.begin() + 8 * kLabels, part.end()));
    EXPECT_FALSE(std::is_sorted(part.begin(), part.begin() + 8 * kLabels));
    EXPECT_EQ(order_after(8), part);  // a fresh training has the same random numbers
    const auto none = order_after(0);
    EXPECT_TRUE(std::is_sorted(none.begin(), none.end()));
}

TEST(Dataset, RefusesShapesThatCannotBe) {
    const ReturnErrors mode;
    const auto refusal = [](std::int64_t point, std::int64_t label, std::int64_t points,
                            std::int64_t shard, ggml_type type = GGML_TYPE_F32) -> std::string {
        const DatasetPtr made(
            ggml_opt_dataset_init(type, GGML_TYPE_F32, point, label, points, shard));
        return made != nullptr ? "" : heddle_last_error();
    };
    EXPECT_EQ(refusal(0, 1, 1, 1), "dataset: points of 0 numbers");
    EXPECT_EQ(refusal(1, -1, 1, 1), "dataset: labels of -1 numbers");
    EXPECT_EQ(refusal(1, 1, 0, 1), "dataset: 0 points");
    EXPECT_EQ(refusal(1, 1, 1, 0), "dataset: shards of 0 points");
    EXPECT_NE(refusal(1, 1, 1, 1, GGML_TYPE_COUNT), "");
    EXPECT_NE(refusal(std::int64_t{1} << 40, 1, std::int64_t{1} << 40, 1), "");
    EXPECT_NE(refusal(std::int64_t{1} << 30, 1, std::int64_t{1} << 28, 1), "");
    EXPECT_EQ(refusal(1, 1, 5, 9), "");  // a shard that is never full
}

class DatasetRefusals : public testing::Test {
protected:
    ReturnErrors mode;
    Rig rig{"CPU"};
    DatasetPtr dataset = numbered(2);
    ggml_tensor* data = rig.input(kNumbers, 4);
    ggml_tensor* labels = rig.input(kLabels, 4);
    ggml_tensor* odd = rig.input(kNumbers, 3);
    ggml_tensor* half = ggml_new_tensor_2d(rig.store(), GGML_TYPE_F16, kNumbers, 4);

    void SetUp() override { rig.allocate_store(); }

    std::string refusal(ggml_tensor* x, ggml_tensor* y, std::int64_t number) {
        heddle_clear_error();
        ggml_opt_dataset_get_batch(dataset.get(), x, y, number);
        return heddle_last_error();
    }
};

TEST_F(DatasetRefusals, BatchesThatDoNotFit) {
    EXPECT_EQ(refusal(data, labels, 2), "");
    EXPECT_EQ(refusal(data, labels, 3), "batch: number 3 of 3 batches of 2 shards each");
    EXPECT_EQ(refusal(data, labels, -1), "batch: number -1 of 3 batches of 2 shards each");
    EXPECT_EQ(
        refusal(odd, labels, 0),
        "batch: 'inputs' f32[2,4,1,1] does not hold the labels of 3 points of 2 numbers each");
    EXPECT_EQ(refusal(data, nullptr, 0),
              "batch: the dataset has labels, and nowhere to put them is given");
    EXPECT_EQ(refusal(half, labels, 0),
              "batch: '' f16[3,4,1,1] has another type than the dataset's 'data' f32[3,12,1,1]");
    EXPECT_EQ(refusal(nullptr, labels, 0), "batch: the tensor for data is NULL");
    ggml_tensor* turned = ggml_transpose(rig.compute(), data);
    EXPECT_EQ(refusal(turned, labels, 0),
              "batch: 'inputs (transposed)' f32[4,3,1,1] is not contiguous");
    std::vector<float> memory(9);
    heddle_clear_error();
    ggml_opt_dataset_get_batch_host(dataset.get(), memory.data(), 9 * sizeof(float), memory.data(),
                                    0);
    EXPECT_STREQ(heddle_last_error(),
                 "batch: 36 bytes are not a whole number of shards of 24 bytes");
    // Labels that nobody has.
    dataset.reset(ggml_opt_dataset_init(GGML_TYPE_F32, GGML_TYPE_F32, kNumbers, 0, kAll, 2));
    EXPECT_EQ(refusal(data, labels, 0), "batch: labels are wanted from a dataset without labels");
}

TEST_F(DatasetRefusals, PointsBehindTheLastWholeShardAreNeverHandedOut) {
    dataset = numbered(4, 11);  // two shards
    EXPECT_EQ(refusal(data, labels, 1), "");
    EXPECT_EQ(refusal(data, labels, 2), "batch: number 2 of 2 batches of 1 shards each");
}

TEST_F(DatasetRefusals, ShufflesOfWhatIsNotThere) {
    const TrainingPtr training(
        ggml_opt_init(ggml_opt_default_params(rig.scheduler(), GGML_OPT_LOSS_TYPE_SUM)));
    ggml_opt_dataset_shuffle(training.get(), dataset.get(), kAll + 2);
    EXPECT_STREQ(heddle_last_error(), "shuffle: the first 14 of 12 points");
    ggml_opt_dataset_shuffle(training.get(), dataset.get(), 3);
    EXPECT_STREQ(heddle_last_error(), "shuffle: 3 points are not a whole number of shards of 2");
    ggml_opt_dataset_shuffle(nullptr, dataset.get(), 2);
    EXPECT_STREQ(heddle_last_error(), "shuffle: the training is NULL");
}

}  // namespace
}  // namespace heddle::test
