#include "sched/resize.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "ggml/ops_layout.h"
#include "ggml/ops_math.h"
#include "ggml/ops_reduce.h"
#include "sched/scheduler.hpp"
#include "sched/test_support.hpp"

namespace heddle::sched {
namespace {

constexpr int kRows = 96, kSteps = 14;

/// Scores of the rows of a cache that are seen, with a mask: as many as `seen`, from `begin` on.
/// Steps behind them have the same sizes whatever is seen.
struct Glance : Sketch {
    Tensor *x, *mask, *scores, *sum, *part, *result;

    Glance(Tensor* w, Tensor* cache, int seen, int begin = 0, const char* name = "result")
        : x(input("x", 1)) {
        ggml_context* const c = context();
        mask = ggml_new_tensor_2d(c, GGML_TYPE_F32, seen, 1);
        ggml_set_input(ggml_set_name(mask, "mask"));
        Tensor* const rows = ggml_view_2d(c, cache, kWidth, seen, cache->nb[1],
                                          static_cast<std::size_t>(begin) * cache->nb[1]);
        Tensor* y = add("y", ggml_mul_mat(c, w, x));
        scores = add("scores", ggml_add(c, ggml_mul_mat(c, rows, y), mask));
        sum = add("sum", ggml_sum_rows(c, scores));
        // A view of planned memory that begins elsewhere.
        part = ggml_view_1d(c, y, 1, static_cast<std::size_t>(begin % kWidth) * sizeof(float));
        result = add("first", ggml_add(c, sum, part));
        for (int i = 0; i < kSteps; ++i) result = add(name, ggml_scale(c, result, 0.5F));
    }
};

class ResizeTest : public RigTest {
protected:
    void SetUp() override {
        start();
        cache = weights.bench().matrix(kWidth, kRows, rig->memory(0));
        ggml_set_name(cache, "cache");  // else the first graph names it, and its views are named so
        cached = sim::numbers(kWidth * kRows, 5);
        sim::write(cache, cached);
    }

    float expected(const Values& x, const Values& mask, int seen, int begin) const {
        const Values y = product(values1, x);
        double sum = y[static_cast<std::size_t>(begin % kWidth)];
        for (int row = 0; row < seen; ++row) {
            sum += double(mask[static_cast<std::size_t>(row)]);
            for (std::size_t k = 0; k < kWidth; ++k) {
                sum += double(cached[static_cast<std::size_t>(begin + row) * kWidth + k]) *
                       double(y[k]);
            }
        }
        return static_cast<float>(sum * std::pow(0.5, kSteps));
    }

    void check(Glance& net, int seen, int begin = 0) {
        ggml_backend_sched_reset(sched());
        ASSERT_TRUE(ggml_backend_sched_alloc_graph(sched(), net.graph())) << heddle_last_error();
        const Values x = sim::numbers(kWidth, static_cast<unsigned>(seen));
        const Values mask = sim::numbers(static_cast<std::size_t>(seen), 7);
        sim::write(net.x, x);
        sim::write(net.mask, mask);
        ASSERT_EQ(ggml_backend_sched_graph_compute(sched(), net.graph()), GGML_STATUS_SUCCESS)
            << heddle_last_error();
        const float right = expected(x, mask, seen, begin);
        EXPECT_NEAR(sim::read(net.result)[0], right, 1e-4F * (1 + std::abs(right))) << seen;
    }

    Tensor* cache = nullptr;
    Values cached;
};

TEST_F(ResizeTest, AGraphThatSeesMoreOfACacheKeepsItsPlaces) {
    const int first = 33, last = 40;  // the mask has places of 32 bytes, scores of 128
    for (int seen = first; seen <= last; ++seen) {
        Glance net(w1, cache, seen);
        check(net, seen);
    }
    EXPECT_EQ(rig->counts().placed, 1u);
    EXPECT_EQ(rig->counts().reused, static_cast<unsigned>(last - first));
}

TEST_F(ResizeTest, AGraphThatSeesLessAndMoreAgainKeepsItsPlaces) {
    for (const int seen : {64, 40, 64, 33}) {
        Glance net(w1, cache, seen);
        check(net, seen);
    }
    EXPECT_EQ(rig->counts().placed, 1u);
}

TEST_F(ResizeTest, AGraphThatOutgrowsItsMemoryIsPlannedAnew) {
    for (const int seen : {32, 33, 40, 41, 64, 20}) {
        Glance net(w1, cache, seen);
        check(net, seen);
    }
    EXPECT_EQ(rig->counts().placed, 4u);
    EXPECT_EQ(rig->counts().reused, 2u);
}

TEST_F(ResizeTest, ViewsMayBeginElsewhere) {
    for (const int begin : {0, 3, 7, 30, 2}) {
        Glance net(w1, cache, 50, begin);
        check(net, 50, begin);
    }
    EXPECT_EQ(rig->counts().placed, 1u);
}

TEST_F(ResizeTest, WhateverIsSeenNextTheResultIsRight) {
    std::mt19937 random(3);
    for (int i = 0; i < 300; ++i) {
        const int seen = 1 + static_cast<int>(random() % (kRows / 2));
        const int begin = static_cast<int>(random() % (kRows / 2));
        Glance net(w1, cache, seen, begin, i % 3 == 0 ? "result" : "other");
        check(net, seen, begin);
    }
    EXPECT_GT(rig->counts().reused, 50u);
}

/// Graphs over two devices in which every tensor but the weights has other sizes.
class OtherBatches : public RigTest {
protected:
    void run(int columns) {
        Sandwich net(w1, w2, nullptr, columns);
        ggml_backend_sched_reset(sched());
        ASSERT_TRUE(ggml_backend_sched_alloc_graph(sched(), net.graph())) << heddle_last_error();
        const Values x = sim::numbers(static_cast<std::size_t>(kWidth * columns), 3);
        sim::write(net.x, x);
        ASSERT_EQ(ggml_backend_sched_graph_compute(sched(), net.graph()), GGML_STATUS_SUCCESS)
            << heddle_last_error();
        expect_near(sim::read(net.f), expected(x));
    }
};

TEST_F(OtherBatches, GetPlacesOfTheirOwn) {
    heddle_sched_set_hazard_check(sched(), false);
    for (const int columns : {3, 2, 3}) run(columns);
    EXPECT_EQ(rig->counts().placed, 3u);
}

TEST_F(OtherBatches, KeepThePlanAsFarAsItGoesWhilePlansAreChecked) {
    for (const int columns : {5, 2, 4, 1, 5}) run(columns);
    EXPECT_EQ(rig->counts().placed, 1u);
    EXPECT_EQ(rig->counts().reused, 4u);
    run(40);
    EXPECT_EQ(rig->counts().placed, 2u);
}

TEST_F(ResizeTest, RunsUnderWayReadWhatTheyWereGiven) {
    Glance one(w1, cache, 36), two(w1, cache, 40);
    check(one, 36);
    ASSERT_EQ(ggml_backend_sched_graph_compute_async(sched(), one.graph()), GGML_STATUS_SUCCESS);
    check(two, 40);
    EXPECT_EQ(rig->counts().placed, 1u);
}

TEST_F(ResizeTest, AViewPastTheEndOfItsMemoryIsRefusedAsInANewGraph) {
    Glance net(w1, cache, 40);
    check(net, 40);
    Glance wrong(w1, cache, 40);
    Tensor* const rows = wrong.scores->src[0]->src[0];
    ASSERT_EQ(rows->view_src, cache);
    rows->view_offs = cache->nb[1] * kRows;
    ggml_backend_sched_reset(sched());
    heddle_clear_error();
    EXPECT_FALSE(ggml_backend_sched_alloc_graph(sched(), wrong.graph()));
    EXPECT_THAT(heddle_last_error(), testing::HasSubstr("reaches past"));
    Glance right(w1, cache, 41);
    check(right, 41);
}

// ---- what backends are given -------------------------------------------------------------------

std::vector<std::uint64_t> given_uids;
std::string last_name;
ggml_status (*compute_before)(ggml_backend_t, ggml_cgraph*) = nullptr;

/// While it lives, uids and the last name of what a stream computes are noted.
class Spy {
public:
    explicit Spy(ggml_backend_t stream) : stream_(stream) {
        given_uids.clear();
        compute_before = stream->iface.graph_compute;
        stream->iface.graph_compute = [](ggml_backend_t each, ggml_cgraph* graph) {
            given_uids.push_back(graph->uid);
            last_name = graph->nodes[graph->n_nodes - 1]->name;
            return compute_before(each, graph);
        };
    }
    ~Spy() { stream_->iface.graph_compute = compute_before; }
    Spy(const Spy&) = delete;
    Spy& operator=(const Spy&) = delete;

private:
    ggml_backend_t stream_;
};

TEST_F(ResizeTest, OtherNamesReachTheDeviceWithoutANewPlan) {
    const Spy spy(rig->stream(0));
    for (const char* name : {"one", "two", "a name that is longer than sixteen", "one"}) {
        Glance net(w1, cache, 40, 0, name);
        check(net, 40);
        EXPECT_EQ(last_name, name);
    }
    ASSERT_EQ(given_uids.size(), 4u);
    EXPECT_NE(given_uids[0], given_uids[1]);
    EXPECT_EQ(rig->counts().placed, 1u);
}

TEST_F(ResizeTest, AGraphOfOtherSizesHasAnotherUid) {
    const Spy spy(rig->stream(0));
    for (const int seen : {33, 33, 34, 34}) {
        Glance net(w1, cache, seen);
        check(net, seen);
    }
    ASSERT_EQ(given_uids.size(), 4u);
    EXPECT_EQ(given_uids[0], given_uids[1]);
    EXPECT_NE(given_uids[1], given_uids[2]);
    EXPECT_EQ(given_uids[2], given_uids[3]);
    EXPECT_EQ(rig->counts().placed, 1u);
}

}  // namespace
}  // namespace heddle::sched
