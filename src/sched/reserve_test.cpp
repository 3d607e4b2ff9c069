// What streams need for a graph besides the memory of its tensors (heddle/backend/reserve.h).

#include "heddle/backend/reserve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ggml-backend-impl.h"
#include "sched/test_support.hpp"

namespace heddle::sched {
namespace {

using testing::HasSubstr;

/// Stands for what a backend's streams need besides the memory of tensors.
class Scratch {
public:
    explicit Scratch(ggml_backend_t stream)
        : registration_(ggml_backend_dev_backend_reg(stream->device)),
          find_(std::exchange(registration_->iface.get_proc_address, find)) {
        asked = nodes = 0;
        is_there = true;
    }
    ~Scratch() { registration_->iface.get_proc_address = find_; }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

    static inline int asked = 0, nodes = 0;
    static inline bool is_there = true;

private:
    static ggml_status take(ggml_backend_t, ggml_cgraph* graph) {
        ++asked;
        nodes += ggml_graph_n_nodes(graph);
        if (is_there) return GGML_STATUS_SUCCESS;
        heddle_report_error("the device has no 5 MiB");
        return GGML_STATUS_ALLOC_FAILED;
    }
    static void* find(ggml_backend_reg_t, const char* name) {
        const bool is_it = std::string_view(name) == HEDDLE_STREAM_RESERVE;
        return is_it ? reinterpret_cast<void*>(take) : nullptr;
    }

    ggml_backend_reg_t registration_;
    decltype(ggml_backend_reg_i::get_proc_address) find_;
};

using ReserveTest = RigTest;

TEST_F(ReserveTest, ReservingTakesWhatStreamsNeedBesides) {
    const Scratch scratch(rig->stream(0));
    ggml_backend_t streams[] = {rig->stream(0), rig->cpu()};
    const OwnedSched asking(ggml_backend_sched_new(streams, nullptr, 2, 256, false, false));
    Sandwich net(w1, w2);
    std::size_t sizes[2] = {};
    ggml_backend_sched_reserve_size(asking.get(), net.graph(), sizes);
    EXPECT_EQ(Scratch::asked, 0) << "measuring takes nothing";
    ASSERT_TRUE(ggml_backend_sched_reserve(asking.get(), net.graph())) << heddle_last_error();
    EXPECT_EQ(Scratch::asked, 2) << "two splits of three are the device's";
    EXPECT_EQ(Scratch::nodes, 4);

    Scratch::is_there = false;
    EXPECT_FALSE(ggml_backend_sched_reserve(asking.get(), net.graph()));
    EXPECT_THAT(heddle_last_error(), HasSubstr("the device has no 5 MiB"));
    EXPECT_EQ(ggml_backend_sched_graph_compute(asking.get(), net.graph()),
              GGML_STATUS_ALLOC_FAILED);
    Scratch::is_there = true;
    EXPECT_TRUE(ggml_backend_sched_reserve(asking.get(), net.graph())) << heddle_last_error();
}

}  // namespace
}  // namespace heddle::sched
