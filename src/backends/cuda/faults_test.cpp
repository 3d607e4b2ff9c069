// What a CUDA device makes of memory that is refused and of indices that point nowhere. One test
// each for the first device there is; without a device there is none.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cuda/driver.hpp"
#include "backends/cuda/peer_copies.hpp"
#include "ggml-cpp.h"
#include "ggml-cpu.h"
#include "ggml-cuda.h"
#include "ggml/ops_layout.h"
#include "ggml/ops_math.h"
#include "ggml/ops_reduce.h"
#include "heddle/heddle.h"

namespace heddle::cuda {
namespace {

using testing::HasSubstr;

std::vector<int> first_device() {
    if (ggml_backend_cuda_get_device_count() == 0) return {};
    return {0};
}

class Faulty : public testing::TestWithParam<int> {
protected:
    void SetUp() override {
        heddle_set_error_mode(HEDDLE_ERROR_MODE_RETURN);
        heddle_clear_error();
    }
    void TearDown() override { fail_after(-1); }
};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Faulty);
INSTANTIATE_TEST_SUITE_P(First, Faulty, testing::ValuesIn(first_device()));

// ---- memory that is refused --------------------------------------------------------------------

/// A chain of products of many columns, which need scratch memory, and additions: long enough to be
/// captured.
struct Chain {
    ggml_context_ptr context{
        ggml_init({.mem_size = 1 << 20, .mem_buffer = nullptr, .no_alloc = true})};
    ggml_tensor *weights = ggml_new_tensor_2d(context.get(), GGML_TYPE_Q4_0, 256, 256),
                *x = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, 256, 40), *y = x;
    ggml_cgraph* graph = ggml_new_graph(context.get());

    Chain() {
        for (int i = 0; i < 4; ++i) {
            y = ggml_add(context.get(), ggml_mul_mat(context.get(), weights, y), x);
        }
        ggml_build_forward_expand(graph, y);
    }

    void write() const {
        std::vector<std::uint8_t> codes(ggml_nbytes(weights));
        for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint8_t>(37 * i);
        for (std::size_t block = 0; block < codes.size(); block += 18) {
            codes[block] = 0, codes[block + 1] = 0x18;  // a scale of 2^-9
        }
        std::vector<float> values(256 * 40);
        std::iota(values.begin(), values.end(), -5000.0f);
        ggml_backend_tensor_set(weights, codes.data(), 0, codes.size());
        ggml_backend_tensor_set(x, values.data(), 0, values.size() * sizeof(float));
    }
    std::vector<float> read() const {
        std::vector<float> values(256 * 40);
        ggml_backend_tensor_get(y, values.data(), 0, values.size() * sizeof(float));
        return values;
    }
};

/// Everything that takes something from the driver, in turn. What fails must say so, and must work
/// when it is tried again; gives the results.
std::vector<float> run_through(int number) {
    const auto again = [](const char* what, auto&& attempt) {
        if (attempt()) return;
        EXPECT_NE(std::string(heddle_last_error()), "") << what << " failed without a word";
        heddle_clear_error();
        EXPECT_TRUE(attempt()) << what << ": " << heddle_last_error();
    };
    Chain chain;
    ggml_backend_ptr stream;
    ggml_backend_buffer_ptr memory, pinned;
    ggml_backend_event_ptr event;
    again("a stream", [&] {
        stream.reset(ggml_backend_cuda_init(number));
        return stream != nullptr;
    });
    again("a buffer", [&] {
        memory.reset(ggml_backend_alloc_ctx_tensors(chain.context.get(), stream.get()));
        return memory != nullptr;
    });
    if (stream == nullptr || memory == nullptr) return {};
    pinned.reset(ggml_backend_buft_alloc_buffer(ggml_backend_cuda_host_buffer_type(), 1 << 16));
    EXPECT_NE(pinned, nullptr) << "ordinary memory was not taken instead";
    if (pinned != nullptr) std::memset(ggml_backend_buffer_get_base(pinned.get()), 1, 1 << 16);
    again("writing", [&] {
        chain.write();
        return *heddle_last_error() == '\0';
    });
    for (int round = 0; round < 4; ++round) {  // directly, captured, and replayed
        again("a graph", [&] {
            const ggml_status status = ggml_backend_graph_compute(stream.get(), chain.graph);
            if (std::string_view(heddle_last_error()).find("scratch") != std::string_view::npos) {
                EXPECT_EQ(status, GGML_STATUS_ALLOC_FAILED);
            }
            return status == GGML_STATUS_SUCCESS;
        });
    }
    event.reset(ggml_backend_event_new(ggml_backend_get_device(stream.get())));
    again("an event", [&] {
        heddle_clear_error();
        ggml_backend_event_record(event.get(), stream.get());
        return *heddle_last_error() == '\0';
    });
    again("waiting", [&] {
        ggml_backend_synchronize(stream.get());
        return *heddle_last_error() == '\0';
    });
    std::vector<float> results;
    again("reading", [&] {
        results = chain.read();
        return *heddle_last_error() == '\0';
    });
    return results;
}

TEST_P(Faulty, EverythingThatTheDriverRefusesIsASentenceAndWorksAfterwards) {
    fail_after(-1);
    const std::vector<float> right = run_through(GetParam());
    const std::int64_t calls = fail_after(-1);
    ASSERT_GE(calls, 8) << "stream, word of faults (2), buffer, pinned, scratch, capture, event";
    ASSERT_FALSE(HasFailure());
    for (std::int64_t n = 0; n < calls; ++n) {
        fail_after(n);
        EXPECT_EQ(run_through(GetParam()), right) << "call " << n << " of " << calls << " failed";
        EXPECT_GE(fail_after(-1), n) << "nothing failed";
    }
}

/// A product of so many columns that its scratch memory is larger than what a full device has left.
struct WideProduct {
    static constexpr std::int64_t kDepth = 4096, kColumns = 32768;  // halves: 256 MiB

    ggml_backend_ptr stream, cpu{ggml_backend_cpu_init()};
    ggml_backend_sched_ptr scheduler;
    ggml_context_ptr context{
        ggml_init({.mem_size = 1 << 20, .mem_buffer = nullptr, .no_alloc = true})};
    ggml_tensor* weights = ggml_new_tensor_2d(context.get(), GGML_TYPE_Q4_0, kDepth, 32);
    ggml_backend_buffer_ptr memory;
    ggml_context_ptr nodes{
        ggml_init({.mem_size = 1 << 20, .mem_buffer = nullptr, .no_alloc = true})};
    ggml_tensor* x = ggml_new_tensor_2d(nodes.get(), GGML_TYPE_F32, kDepth, kColumns);
    ggml_cgraph* graph = ggml_new_graph(nodes.get());

    explicit WideProduct(int device) : stream(ggml_backend_cuda_init(device)) {
        memory.reset(ggml_backend_alloc_ctx_tensors(context.get(), stream.get()));
        ggml_backend_buffer_set_usage(memory.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
        ggml_backend_buffer_clear(memory.get(), 0);
        ggml_set_input(x);
        ggml_build_forward_expand(graph, ggml_mul_mat(nodes.get(), weights, x));
        ggml_backend_t streams[] = {stream.get(), cpu.get()};
        scheduler.reset(ggml_backend_sched_new(streams, nullptr, 2, 64, false, true));
    }
    /// Its inputs are whatever lies there: only the status counts.
    ggml_status run() const {
        if (!ggml_backend_sched_alloc_graph(scheduler.get(), graph))
            return GGML_STATUS_ALLOC_FAILED;
        return ggml_backend_sched_graph_compute(scheduler.get(), graph);
    }
};

/// Takes the memory of a device but for `rest` bytes.
std::vector<ggml_backend_buffer_ptr> fill_device(int device, std::size_t rest) {
    std::vector<ggml_backend_buffer_ptr> taken;
    std::size_t free = 0, total = 0;
    for (std::size_t piece = std::size_t{1} << 36; piece >= (1u << 21);) {
        ggml_backend_cuda_get_device_memory(device, &free, &total);
        ggml_backend_buffer_ptr buffer;
        if (free >= rest + piece) {
            buffer.reset(
                ggml_backend_buft_alloc_buffer(ggml_backend_cuda_buffer_type(device), piece));
        }
        if (buffer == nullptr) {
            piece /= 2;
        } else {
            taken.push_back(std::move(buffer));
        }
    }
    return taken;
}

constexpr std::size_t kRest = std::size_t{128} << 20;  ///< for code of kernels and the like

TEST_P(Faulty, AGraphThatWasReservedRunsOnADeviceThatIsFull) {
    const WideProduct product(GetParam());
    ASSERT_TRUE(ggml_backend_sched_reserve(product.scheduler.get(), product.graph))
        << heddle_last_error();
    const auto taken = fill_device(GetParam(), kRest);
    heddle_clear_error();
    EXPECT_EQ(product.run(), GGML_STATUS_SUCCESS) << heddle_last_error();
}

TEST_P(Faulty, ReservingFailsWhereScratchMemoryIsNotThere) {
    const WideProduct product(GetParam());
    std::size_t sizes[2] = {};
    ggml_backend_sched_reserve_size(product.scheduler.get(), product.graph, sizes);
    {
        const auto taken = fill_device(GetParam(), sizes[0] + kRest);
        heddle_clear_error();
        EXPECT_FALSE(ggml_backend_sched_reserve(product.scheduler.get(), product.graph));
        EXPECT_THAT(heddle_last_error(), HasSubstr("of scratch memory on CUDA0"));
    }
    EXPECT_TRUE(ggml_backend_sched_reserve(product.scheduler.get(), product.graph))
        << heddle_last_error();
    EXPECT_EQ(product.run(), GGML_STATUS_SUCCESS) << heddle_last_error();
}

TEST_P(Faulty, MoreMemoryThanThereIsIsRefusedWithItsSize) {
    const ggml_backend_ptr stream(ggml_backend_cuda_init(GetParam()));
    const ggml_backend_buffer_ptr none(
        ggml_backend_buft_alloc_buffer(ggml_backend_cuda_buffer_type(GetParam()), 1ull << 50));
    EXPECT_EQ(none, nullptr);
    EXPECT_THAT(heddle_last_error(), HasSubstr("1024.0 TiB"));
    const ggml_backend_buffer_ptr some(
        ggml_backend_buft_alloc_buffer(ggml_backend_cuda_buffer_type(GetParam()), 1 << 20));
    EXPECT_NE(some, nullptr);
}

TEST_P(Faulty, TensorsThatAreNotInsideTheirBufferAreRefused) {
    Chain chain;
    const ggml_backend_ptr stream(ggml_backend_cuda_init(GetParam()));
    const ggml_backend_buffer_ptr memory(
        ggml_backend_alloc_ctx_tensors(chain.context.get(), stream.get()));
    ASSERT_NE(memory, nullptr);
    chain.write();
    void* const data = chain.x->data;
    chain.x->data = static_cast<char*>(data) + ggml_backend_buffer_get_size(memory.get());
    EXPECT_EQ(ggml_backend_graph_compute(stream.get(), chain.graph), GGML_STATUS_FAILED);
    EXPECT_THAT(heddle_last_error(), HasSubstr("are not inside the buffer's"));
    chain.x->data = data;
    heddle_clear_error();
    EXPECT_EQ(ggml_backend_graph_compute(stream.get(), chain.graph), GGML_STATUS_SUCCESS)
        << heddle_last_error();
}

TEST_P(Faulty, ATrialOfCopiesFindsThatAGpuKeepsWhatItIsGiven) {
    const auto tried = try_peer_copy(GetParam(), GetParam());
    ASSERT_TRUE(tried) << tried.error().message;
    EXPECT_TRUE(*tried);
    for (int n = 0; n < 2; ++n) {
        fail_after(n);
        EXPECT_FALSE(try_peer_copy(GetParam(), GetParam())) << "allocation " << n << " failed";
    }
}

// ---- indices that point nowhere ----------------------------------------------------------------

/// A graph of one node with indices in it.
class Indexed {
public:
    template <class Build>
    Indexed(int device, std::int64_t indices, Build&& build)
        : stream_(ggml_backend_cuda_init(device)), count_(static_cast<std::size_t>(indices)) {
        node_ = build(context_.get(), ids_);
        ggml_build_forward_expand(graph_, node_);
        memory_.reset(ggml_backend_alloc_ctx_tensors(context_.get(), stream_.get()));
        ggml_backend_buffer_clear(memory_.get(), 0);
    }

    /// All indices 1, but one.
    ggml_status compute(std::int32_t odd_one) {
        std::vector<std::int32_t> ids(count_, 1);
        ids[count_ / 2] = odd_one;
        ggml_backend_tensor_set(ids_, ids.data(), 0, ids.size() * sizeof ids[0]);
        heddle_clear_error();
        return ggml_backend_graph_compute(stream_.get(), graph_);
    }

private:
    ggml_backend_ptr stream_;
    ggml_context_ptr context_{
        ggml_init({.mem_size = 1 << 20, .mem_buffer = nullptr, .no_alloc = true})};
    ggml_cgraph* graph_ = ggml_new_graph(context_.get());
    ggml_backend_buffer_ptr memory_;
    std::size_t count_;
    ggml_tensor *ids_ = nullptr, *node_ = nullptr;
};

void expect_refused(Indexed& graph, const char* op, int extent) {
    for (const std::int32_t wrong : {extent, -1, 1 << 30}) {
        EXPECT_EQ(graph.compute(0), GGML_STATUS_SUCCESS) << heddle_last_error();
        EXPECT_EQ(graph.compute(wrong), GGML_STATUS_FAILED) << op << ", index " << wrong;
        EXPECT_THAT(heddle_last_error(),
                    HasSubstr(op + std::string(" on CUDA0: index ") + std::to_string(wrong) +
                              " is outside of its table, which has " + std::to_string(extent)));
    }
    EXPECT_EQ(graph.compute(0), GGML_STATUS_SUCCESS) << heddle_last_error();
}

constexpr ggml_type kTables[] = {GGML_TYPE_F32, GGML_TYPE_Q8_0};

TEST_P(Faulty, RowsThatDoNotExistAreNotRead) {
    for (const ggml_type type : kTables) {
        Indexed graph(GetParam(), 5, [&](ggml_context* context, ggml_tensor*& ids) {
            ids = ggml_new_tensor_1d(context, GGML_TYPE_I32, 5);
            return ggml_get_rows(context, ggml_new_tensor_2d(context, type, 64, 7), ids);
        });
        expect_refused(graph, "GET_ROWS", 7);
    }
}

TEST_P(Faulty, RowsThatDoNotExistAreNotWritten) {
    for (const ggml_type type : kTables) {
        Indexed graph(GetParam(), 5, [&](ggml_context* context, ggml_tensor*& ids) {
            ids = ggml_new_tensor_1d(context, GGML_TYPE_I32, 5);
            return ggml_set_rows(context, ggml_new_tensor_2d(context, type, 64, 7),
                                 ggml_new_tensor_2d(context, GGML_TYPE_F32, 64, 5), ids);
        });
        expect_refused(graph, "SET_ROWS", 7);
    }
}

TEST_P(Faulty, BiasesThatDoNotExistAreNotAdded) {
    Indexed graph(GetParam(), 6, [&](ggml_context* context, ggml_tensor*& ids) {
        ids = ggml_new_tensor_2d(context, GGML_TYPE_I32, 2, 3);
        return ggml_add_id(context, ggml_new_tensor_3d(context, GGML_TYPE_F32, 64, 2, 3),
                           ggml_new_tensor_2d(context, GGML_TYPE_F32, 64, 4), ids);
    });
    expect_refused(graph, "ADD_ID", 4);
}

TEST_P(Faulty, ExpertsThatDoNotExistAreNotAsked) {
    for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_K}) {
        for (const std::int64_t tokens : {1, 6, 70}) {
            const std::int64_t depth = 256;
            Indexed graph(GetParam(), 2 * tokens, [&](ggml_context* context, ggml_tensor*& ids) {
                ids = ggml_new_tensor_2d(context, GGML_TYPE_I32, 2, tokens);
                return ggml_mul_mat_id(context, ggml_new_tensor_3d(context, type, depth, 32, 4),
                                       ggml_new_tensor_3d(context, GGML_TYPE_F32, depth, 1, tokens),
                                       ids);
            });
            SCOPED_TRACE(testing::Message() << ggml_type_name(type) << ", " << tokens << " tokens");
            expect_refused(graph, "MUL_MAT_ID", 4);
        }
    }
}

}  // namespace
}  // namespace heddle::cuda
