// What can still be read of weights when their worker is lost: what came from a file here.
#include <gmock/gmock.h>

#include "backends/mpi/weights_test_support.hpp"
#include "ggml/ops_layout.h"

namespace heddle::mpi {
namespace {

using testing::HasSubstr;

struct WeightsOfALostWorker : testing::Test {
    WeightsOfALostWorker() { EXPECT_LT(there.write({file.data + kLittle, kSize}), kLittle); }
    static Settings settings() {
        Settings settings;
        settings.timeout = kShortTimeout;
        return settings;
    }
    /// Whether bytes of the tensor can be read, and are those of the file.
    bool can_be_read(std::size_t offset, std::size_t size) {
        heddle_clear_error();
        const auto found = there.read(size, offset);
        if (*heddle_last_error() != '\0') {
            EXPECT_THAT(heddle_last_error(), HasSubstr("MPI1: lost: nothing was heard of rank 1"));
            return false;
        }
        EXPECT_EQ(std::memcmp(found.data(), file.data + kLittle + offset, size), 0);
        return true;
    }

    const MappedFile file{"-t.gguf", 2 * kSize};
    There there{settings(), {}};
};

TEST_F(WeightsOfALostWorker, AreReadFromTheirFileHere) {
    there.lose_worker();
    EXPECT_TRUE(can_be_read(0, kSize));
    EXPECT_TRUE(can_be_read(777, 1000));
    std::vector<std::byte> pieces(300);
    ggml_backend_tensor_get_2d(there.tensor, pieces.data(), 50, 100, 3, 1000, 100);
    EXPECT_STREQ(heddle_last_error(), "");
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(std::memcmp(pieces.data() + i * 100, file.data + kLittle + 50 + i * 1000, 100),
                  0);
    }
}

TEST_F(WeightsOfALostWorker, AreReadFromTheFileThatIsOpenWhenItsNameIsGone) {
    std::filesystem::remove(file.path);
    there.lose_worker();
    EXPECT_TRUE(can_be_read(0, kSize));
}

TEST_F(WeightsOfALostWorker, AreGoneWhereTheyWereWrittenOver) {
    const std::vector<std::byte> other(1000);
    ggml_backend_tensor_set(there.tensor, other.data(), 5000, other.size());
    ggml_backend_tensor_memset(there.tensor, 7, 20'000, 10);
    there.lose_worker();
    EXPECT_FALSE(can_be_read(0, kSize)) << "never zeros";
    EXPECT_TRUE(can_be_read(0, 5000));
    EXPECT_FALSE(can_be_read(5999, 1));
    EXPECT_TRUE(can_be_read(6000, 14'000));
    EXPECT_FALSE(can_be_read(20'005, 1));
    EXPECT_TRUE(can_be_read(20'010, kSize - 20'010));
}

TEST_F(WeightsOfALostWorker, AreGoneAfterTheBufferWasCleared) {
    ggml_backend_buffer_clear(there.buffer.get(), 0);
    there.lose_worker();
    EXPECT_FALSE(can_be_read(0, 1));
}

TEST_F(WeightsOfALostWorker, AreGoneAfterAStreamWroteThem) {
    const ggml_backend_ptr stream(ggml_backend_dev_init(there.job.device(0), nullptr));
    const std::vector<std::byte> other(10);
    ggml_backend_tensor_set_async(stream.get(), there.tensor, other.data(), 100, other.size());
    ggml_backend_synchronize(stream.get());
    there.lose_worker();
    EXPECT_TRUE(can_be_read(0, 100));
    EXPECT_FALSE(can_be_read(100, 1));
    EXPECT_TRUE(can_be_read(110, 100));
    std::vector<std::byte> found(100);
    ggml_backend_tensor_get_async(stream.get(), there.tensor, found.data(), 110, found.size());
    EXPECT_EQ(std::memcmp(found.data(), file.data + kLittle + 110, found.size()), 0);
}

TEST_F(WeightsOfALostWorker, AreGoneWhereAGraphHasResults) {
    const ggml_backend_ptr stream(ggml_backend_dev_init(there.job.device(0), nullptr));
    ggml_tensor* const first = ggml_view_1d(there.context.get(), there.tensor, 64, 0);
    ggml_tensor* const second = ggml_view_1d(there.context.get(), there.tensor, 64, 128);
    ggml_cgraph* const graph = ggml_new_graph_custom(there.context.get(), 8, false);
    ggml_build_forward_expand(graph, ggml_cpy(there.context.get(), first, second));
    for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
        ggml_backend_view_init(ggml_graph_node(graph, i));
    }
    ASSERT_EQ(ggml_backend_graph_compute(stream.get(), graph), GGML_STATUS_SUCCESS)
        << heddle_last_error();
    EXPECT_EQ(there.read(64, 128), there.read(64, 0));
    there.lose_worker();
    EXPECT_FALSE(can_be_read(128, 64));
}

TEST_F(WeightsOfALostWorker, AreGoneWhenTheirFileChanges) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    write_at(file.path, kLittle, "x");
    there.lose_worker();
    there.read(1);
    EXPECT_THAT(heddle_last_error(), HasSubstr("was written to since weights came from it"));
}

TEST(WeightsThatWereSent, FromAFileHereAreReadFromItToo) {
    const MappedFile file("-u.bin", 2 * kSize);  // no model: the worker does not read it
    There there(WeightsOfALostWorker::settings(), {});
    EXPECT_GT(there.write({file.data, kSize}), kSize);
    there.lose_worker();
    const auto found = there.read();
    EXPECT_STREQ(heddle_last_error(), "");
    EXPECT_EQ(std::memcmp(found.data(), file.data, kSize), 0);
}

TEST(WeightsOfTwoWorkers, AreCopiedFromTheirFileWhenOneIsLost) {
    const MappedFile file("-v.gguf", 2 * kSize);
    TestJob job(2, 1, WeightsOfALostWorker::settings(), {});
    heddle_set_error_mode(HEDDLE_ERROR_MODE_RETURN);
    const ggml_context_ptr context = small_context();
    std::vector<ggml_backend_buffer_ptr> buffers;
    std::vector<ggml_backend_ptr> streams;
    std::vector<ggml_tensor*> tensors;
    for (const std::size_t i : {0, 1}) {
        streams.emplace_back(ggml_backend_dev_init(job.device(i), nullptr));
        buffers.emplace_back(
            ggml_backend_buft_alloc_buffer(ggml_backend_dev_buffer_type(job.device(i)), kSize));
        tensors.push_back(ggml_new_tensor_1d(context.get(), GGML_TYPE_I8, std::int64_t{kSize}));
        ggml_backend_tensor_alloc(buffers[i].get(), tensors[i],
                                  ggml_backend_buffer_get_base(buffers[i].get()));
    }
    ggml_backend_tensor_set(tensors[0], file.data, 0, kSize);
    job.fabric.silence(1);
    EXPECT_THAT(loss_of(job, 1), HasSubstr("nothing was heard"));
    for (const bool by_stream : {true, false}) {
        ggml_backend_tensor_memset(tensors[1], 0, 0, kSize);
        heddle_clear_error();
        if (by_stream) {
            ggml_backend_tensor_copy_async(streams[0].get(), streams[1].get(), tensors[0],
                                           tensors[1]);
            ggml_backend_synchronize(streams[1].get());
        } else {
            ggml_backend_tensor_copy(tensors[0], tensors[1]);
        }
        EXPECT_STREQ(heddle_last_error(), "");
        std::vector<std::byte> found(kSize);
        ggml_backend_tensor_get(tensors[1], found.data(), 0, kSize);
        EXPECT_EQ(std::memcmp(found.data(), file.data, kSize), 0) << by_stream;
    }
}

}  // namespace
}  // namespace heddle::mpi
