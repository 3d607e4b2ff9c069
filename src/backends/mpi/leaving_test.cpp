// How a worker leaves while it waits for something, or when others wait for it.
#include <gmock/gmock.h>

#include <atomic>

#include "backends/mpi/weights_test_support.hpp"

namespace heddle::mpi {
namespace {

TEST(Worker, LeavesWhenAStreamCannotTellOthersThatItFailed) {
    ThreadFabric fabric(2);
    const auto seat = fabric.join(1);
    Outbox outbox(*seat);
    std::atomic<bool> has_left{false};
    Driver driver(outbox, {.handle = [](Message) {},
                           .hear = [](const Message&) {},
                           .drop_out = [&](const Error&) { has_left = true; }});
    StreamThreads threads(driver);
    threads.make_enough(1);
    const auto stream =
        std::make_shared<Executor>(Executor::Surroundings{outbox, driver, threads}, 1, 0, nullptr);
    stream->submit({.place = 1, .run = [] { return Result<>(failure(Errc::device, "oh")); }});
    stream->submit({.place = 2, .skip = [](const Error&) { throw std::bad_alloc(); }});
    EXPECT_EQ(stream->wait_for(2).error().message, "oh");
    EXPECT_TRUE(has_left);
    driver.stop();
    threads.end();
}

TEST(Worker, HearsThatItIsToLeaveWhileAGroupIsMade) {
    for (const bool is_batched : {false, true}) {
        ThreadFabric fabric(2);
        const auto rank_zero = fabric.join(0);
        Result<> outcome = failure(Errc::device, "it has not left");
        std::thread worker([&] {
            const auto seat = fabric.join(1);
            Server server(*seat, {ggml_backend_reg_dev_get(ggml_backend_cpu_reg(), 0)},
                          {.threads = 1});
            outcome = server.serve();
        });
        const auto message = [](Kind kind, const std::vector<std::uint32_t>& values) {
            ByteWriter out = begin({.kind = kind});
            for (const std::uint32_t value : values) out.put(value);
            return seal(std::move(out));
        };
        rank_zero->send(1, message(Kind::welcome, {10'000, Polling::kAuto}));
        rank_zero->send(1, message(Kind::group, {1, 7, 1, 1}));
        EXPECT_FALSE(next_of(*rank_zero, Kind::answer).empty()) << "it waits for the others";
        const auto begin_of_wait = Clock::now();
        Bytes last = message(Kind::goodbye, {});
        if (is_batched) {
            const Bytes first = message(Kind::ping, {});
            ByteWriter batch = begin({.kind = Kind::batch});
            batch.raw(first);
            batch.raw(last);
            last = seal(std::move(batch));
        }
        rank_zero->send(1, std::move(last));
        worker.join();
        EXPECT_TRUE(outcome) << outcome.error().message;
        EXPECT_LT(Clock::now() - begin_of_wait, std::chrono::seconds(2));
    }
}

/// The CPU, but what is written there takes a while.
ggml_backend_dev_t cpu_that_is_slow_to_write() {
    static ggml_backend_device device = *ggml_backend_reg_dev_get(ggml_backend_cpu_reg(), 0);
    static ggml_backend_buffer_type type = *ggml_backend_cpu_buffer_type();
    static std::atomic<decltype(ggml_backend_buffer_i::set_tensor)> write{nullptr};
    type.device = &device;
    type.iface.alloc_buffer = [](ggml_backend_buffer_type_t, std::size_t size) {
        const ggml_backend_buffer_t buffer =
            ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(), size);
        buffer->buft = &type;
        write = buffer->iface.set_tensor;
        buffer->iface.set_tensor = [](ggml_backend_buffer_t self, ggml_tensor* tensor,
                                      const void* data, std::size_t offset, std::size_t bytes) {
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
            write.load()(self, tensor, data, offset, bytes);
        };
        return buffer;
    };
    device.iface.get_buffer_type = [](ggml_backend_dev_t) { return &type; };
    return &device;
}

TEST(Worker, IsNotHeldUpByWeightsWhenRankZeroHasLeft) {
    const MappedFile model("-z.gguf", kSize);
    for (const bool says_goodbye : {true, false}) {
        TestJob::Serving serving;
        serving.device = cpu_that_is_slow_to_write();
        Settings settings;
        settings.timeout = kShortTimeout;
        There there(settings, serving);
        constexpr int kLoads = 100;  // ten seconds
        for (int i = 0; i < kLoads; ++i) ASSERT_TRUE(load_file(there.tensor, model.path, 0));
        ggml_backend_buffer_clear(there.buffer.get(), 0);  // waits for them, there
        std::this_thread::sleep_for(kShortTimeout / 2);
        if (!says_goodbye) there.job.fabric.silence(0);
        const auto begin = Clock::now();
        there.job.end();
        EXPECT_LT(Clock::now() - begin, 3 * kShortTimeout + std::chrono::seconds(2));
        EXPECT_EQ(there.job.outcomes[0].has_value(), says_goodbye);
    }
}

}  // namespace
}  // namespace heddle::mpi
