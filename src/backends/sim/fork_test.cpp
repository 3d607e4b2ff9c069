// A child that goes on with the streams of its parent. Their threads are not there.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "backends/sim/test_support.hpp"
#include "ggml/ops_math.h"
#include "heddle/heddle.h"

namespace heddle::sim {
namespace {

/// Whether `body` comes back in a child, and says yes.
template <class Body>
bool holds_in_child(const Body& body) {
    const pid_t child = fork();
    if (child == 0) {
        alarm(60);  // a child that waits for ever ends with a signal
        ggml_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
        _exit(body() ? EXIT_SUCCESS : EXIT_FAILURE);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS;
}

bool says_why() {
    return std::string_view(heddle_last_error()).find("made before fork()") !=
           std::string_view::npos;
}

class SimFork : public testing::Test {
protected:
    SimFork() {
        EXPECT_TRUE(configure("devices=1"));
        stream_.reset(ggml_backend_dev_init(device(), nullptr));
        x_ = bench_.vector(100, type());
        y_ = bench_.place(ggml_sqr(bench_.context(), x_), type());
        graph_ = bench_.graph({y_});
        write(x_, numbers(100));
        // Its thread runs, and waits for more.
        EXPECT_EQ(ggml_backend_graph_compute(stream_.get(), graph_), GGML_STATUS_SUCCESS);
    }

    static ggml_backend_buffer_type_t type() { return ggml_backend_dev_buffer_type(device()); }

    Bench bench_;
    Stream stream_;
    Tensor *x_, *y_;
    ggml_cgraph* graph_;
};

TEST_F(SimFork, ComputingOnAStreamOfTheParentFailsWithASentence) {
    EXPECT_TRUE(holds_in_child([&] {
        return ggml_backend_graph_compute(stream_.get(), graph_) == GGML_STATUS_FAILED &&
               says_why();
    }));
    EXPECT_EQ(ggml_backend_graph_compute(stream_.get(), graph_), GGML_STATUS_SUCCESS);
}

TEST_F(SimFork, CopiesEventsAndWaitsOnAStreamOfTheParentFailLikewise) {
    const Event event(ggml_backend_event_new(device()));
    ggml_backend_event_record(event.get(), stream_.get());
    std::vector<float> values(100);
    const auto fails = [&](const auto& call) {
        return holds_in_child([&] {
            heddle_clear_error();
            call();
            return says_why();
        });
    };
    EXPECT_TRUE(fails([&] { ggml_backend_synchronize(stream_.get()); }));
    EXPECT_TRUE(
        fails([&] { ggml_backend_tensor_set_async(stream_.get(), x_, values.data(), 0, 400); }));
    EXPECT_TRUE(
        fails([&] { ggml_backend_tensor_get_async(stream_.get(), x_, values.data(), 0, 400); }));
    EXPECT_TRUE(fails([&] { ggml_backend_event_record(event.get(), stream_.get()); }));
    EXPECT_TRUE(fails([&] { ggml_backend_event_wait(stream_.get(), event.get()); }));
    EXPECT_TRUE(holds_in_child([&] {
        ggml_backend_event_synchronize(event.get());
        return true;
    }));
}

TEST_F(SimFork, AChildMayFreeStreamsAndMemoryOfItsParent) {
    EXPECT_TRUE(holds_in_child([&] {
        stream_.reset();
        return true;
    }));
    EXPECT_TRUE(holds_in_child([&] {
        const Buffer memory(ggml_backend_buft_alloc_buffer(type(), 1024));
        return memory != nullptr;  // whose release waits for all streams
    }));
}

TEST_F(SimFork, NewStreamsWorkInAChild) {
    EXPECT_TRUE(holds_in_child([&] {
        const Stream fresh(ggml_backend_dev_init(device(), nullptr));
        write(x_, std::vector<float>(100, 3));
        return ggml_backend_graph_compute(fresh.get(), graph_) == GGML_STATUS_SUCCESS &&
               read(y_) == std::vector<float>(100, 9);
    }));
}

}  // namespace
}  // namespace heddle::sim
