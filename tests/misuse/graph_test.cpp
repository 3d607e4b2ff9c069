// Graphs that cannot be computed as they are: refused when they get memory, not when it is too
// late.

#include "ggml-backend-impl.h"
#include "ggml-impl.h"
#include "gguf.h"
#include "tests/misuse/test_support.hpp"

namespace heddle::misuse {
namespace {

using testing::HasSubstr;

/// y = 2 v, where v is a view of a tensor that the graph does not have.
class OutsideView : public Misuse {
protected:
    OutsideView() {
        ggml_set_name(root, "root");
        graph = graph_of(result);
    }

    /// Gives the root memory of its own and expects that all goes well then.
    template <class Allocate, class Compute>
    void expect_right_with_memory(const Allocate& allocate_graph, const Compute& compute) {
        const Buffer memory(ggml_backend_alloc_buffer(cpu.get(), ggml_nbytes(root)));
        ASSERT_EQ(ggml_backend_tensor_alloc(memory.get(), root,
                                            ggml_backend_buffer_get_base(memory.get())),
                  GGML_STATUS_SUCCESS);
        ASSERT_TRUE(allocate_graph()) << heddle_last_error();
        const std::vector<float> threes(64, 3);
        ggml_backend_tensor_set(root, threes.data(), 0, ggml_nbytes(root));
        ASSERT_EQ(compute(), GGML_STATUS_SUCCESS) << heddle_last_error();
        std::vector<float> values(64);
        ggml_backend_tensor_get(result, values.data(), 0, ggml_nbytes(result));
        EXPECT_EQ(values, std::vector<float>(64, 6));
    }

    Stream cpu{ggml_backend_cpu_init()};
    ggml_tensor* root = input();
    ggml_tensor* view = ggml_view_tensor(context.get(), root);
    ggml_tensor* result = ggml_scale(context.get(), view, 2);
    ggml_cgraph* graph;
};

constexpr const char* kWhy = "which it is a view of, is not in the graph and has no memory";

TEST_F(OutsideView, IsRefusedByTheGraphAllocatorUntilItsRootHasMemory) {
    const std::unique_ptr<ggml_gallocr, Release<ggml_gallocr_free>> allocator(
        ggml_gallocr_new(ggml_backend_cpu_buffer_type()));
    const auto allocate_graph = [&] { return ggml_gallocr_alloc_graph(allocator.get(), graph); };
    EXPECT_TRUE(ggml_gallocr_reserve(allocator.get(), graph)) << "it only measures";
    EXPECT_FALSE(allocate_graph());
    EXPECT_THAT(heddle_last_error(), HasSubstr(kWhy));
    EXPECT_EQ(result->data, nullptr) << "all or nothing";
    expect_right_with_memory(allocate_graph,
                             [&] { return ggml_backend_graph_compute(cpu.get(), graph); });
}

TEST_F(OutsideView, IsFineWithMemoryOfTheProgramAndWhereThereIsNothingToRead) {
    const std::unique_ptr<ggml_gallocr, Release<ggml_gallocr_free>> allocator(
        ggml_gallocr_new(ggml_backend_cpu_buffer_type()));
    ggml_tensor* empty = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, 8, 0);
    ggml_cgraph* of_nothing =
        graph_of(ggml_scale(context.get(), ggml_view_tensor(context.get(), empty), 2));
    EXPECT_TRUE(ggml_gallocr_alloc_graph(allocator.get(), of_nothing)) << heddle_last_error();
    std::vector<float> memory(64);
    root->data = view->data = memory.data();
    EXPECT_TRUE(ggml_gallocr_alloc_graph(allocator.get(), graph)) << heddle_last_error();
}

TEST_F(OutsideView, IsRefusedByTheSchedulerUntilItsRootHasMemory) {
    ggml_backend_t streams[] = {cpu.get()};
    const Scheduler scheduler(ggml_backend_sched_new(streams, nullptr, 1, 64, false, false));
    const auto allocate_graph = [&] {
        ggml_backend_sched_reset(scheduler.get());
        return ggml_backend_sched_alloc_graph(scheduler.get(), graph);
    };
    EXPECT_TRUE(ggml_backend_sched_reserve(scheduler.get(), graph)) << "it only measures";
    EXPECT_FALSE(allocate_graph());
    EXPECT_THAT(heddle_last_error(), HasSubstr(kWhy));
    expect_right_with_memory(
        allocate_graph, [&] { return ggml_backend_sched_graph_compute(scheduler.get(), graph); });
}

/// A tensor whose allocator has planned a larger graph since.
class LostMemory : public Misuse {
protected:
    LostMemory() {
        EXPECT_TRUE(ggml_gallocr_alloc_graph(allocator.get(), graph_of(lost)));
        ggml_tensor* large = ggml_new_tensor_1d(context.get(), GGML_TYPE_F32, 1 << 16);
        EXPECT_TRUE(
            ggml_gallocr_reserve(allocator.get(), graph_of(ggml_sqr(context.get(), large))));
        memory.reset(ggml_backend_alloc_buffer(cpu.get(), ggml_nbytes(other)));
        ggml_backend_tensor_alloc(memory.get(), other, ggml_backend_buffer_get_base(memory.get()));
        heddle_clear_error();
    }

    std::unique_ptr<ggml_gallocr, Release<ggml_gallocr_free>> allocator{
        ggml_gallocr_new(ggml_backend_cpu_buffer_type())};
    Stream cpu{ggml_backend_cpu_init()};
    Buffer memory;
    ggml_tensor* other = input();
    ggml_tensor* lost = ggml_sqr(context.get(), input());
};

TEST_F(LostMemory, IsNotRead) {
    ggml_backend_tensor_copy(lost, other);
    EXPECT_THAT(heddle_last_error(), HasSubstr("the memory that it had was given up"));
    EXPECT_FALSE(ggml_backend_buffer_copy_tensor(lost, other));
    gguf_context* file = gguf_init_empty();
    gguf_add_tensor(file, lost);
    std::vector<std::int8_t> bytes;
    gguf_write_to_buf(file, bytes, false);
    EXPECT_THAT(heddle_last_error(), HasSubstr("cannot be read, or that was given up"));
    EXPECT_TRUE(bytes.empty());
    gguf_free(file);
}

TEST_F(LostMemory, IsNotComputedWith) {
    ggml_tensor* next = ggml_add(context.get(), lost, other);
    ggml_cgraph* graph = ggml_new_graph(context.get());
    ggml_graph_add_node(graph, next);
    next->flags |= GGML_TENSOR_FLAG_COMPUTE;
    next->data = ggml_backend_buffer_get_base(memory.get());
    next->buffer = memory.get();
    EXPECT_NE(ggml_backend_graph_compute(cpu.get(), graph), GGML_STATUS_SUCCESS);
    EXPECT_THAT(heddle_last_error(), HasSubstr("is not inside its buffer of 0 bytes"));
}

}  // namespace
}  // namespace heddle::misuse
