// What a worker waits for, what others wait for meanwhile, and how it leaves.
#include <gmock/gmock.h>

#include <atomic>

#include "backends/mpi/weights_test_support.hpp"

namespace heddle::mpi {
namespace {

using std::chrono::milliseconds;

constexpr std::chrono::seconds kPatience{10};

template <class Done>
void wait_a_while_until(const Done& done) {
    const auto until = Clock::now() + kPatience;
    while (!done() && Clock::now() < until) std::this_thread::sleep_for(milliseconds(1));
}

ggml_backend_dev_t cpu() { return ggml_backend_reg_dev_get(ggml_backend_cpu_reg(), 0); }

// ---- a worker by itself ------------------------------------------------------------------------

/// A rank's place in a job. What it sends seems to stay here for as long as a test wants.
class Seat final : public Fabric {
public:
    explicit Seat(std::unique_ptr<Fabric> real) : real_(std::move(real)) {}
    int rank() const override { return real_->rank(); }
    int size() const override { return real_->size(); }
    void send(int to, Bytes message) override { real_->send(to, std::move(message)); }
    std::optional<Message> receive() override { return real_->receive(); }
    void forget(int rank) override { real_->forget(rank); }
    void hold_back(int rank, bool is_held) override { real_->hold_back(rank, is_held); }
    std::size_t unsent(int) const override {
        ++asked;
        return is_stuck ? SIZE_MAX : 0;
    }

    std::atomic<bool> is_stuck{false};
    mutable std::atomic<int> asked{0};

private:
    const std::unique_ptr<Fabric> real_;
};

Bytes message_with(const Header& header, const std::vector<std::uint32_t>& values = {}) {
    ByteWriter out = begin(header);
    for (const std::uint32_t value : values) out.put(value);
    return seal(std::move(out));
}

/// A worker, rank 1 of a job. The others are played by the test.
class Alone {
public:
    explicit Alone(ggml_backend_dev_t device = cpu(), const ServeOptions& options = {.threads = 1})
        : thread_([this, device, options] {
              Server server(seat, {device}, options);
              outcome_ = server.serve();
          }) {}
    ~Alone() {
        if (thread_.joinable()) (void)end();
    }
    Alone(const Alone&) = delete;
    Alone& operator=(const Alone&) = delete;

    void say(Bytes bytes) const { rank_zero->send(1, std::move(bytes)); }
    void welcome(milliseconds timeout = kPatience) const {
        say(message_with({.kind = Kind::welcome},
                         {static_cast<std::uint32_t>(timeout.count()), Polling::kAuto}));
    }
    bool answers() const { return !next_of(*rank_zero, Kind::answer).empty(); }
    /// How it left.
    Result<> end() {
        say(message_with({.kind = Kind::goodbye}));
        thread_.join();
        return outcome_;
    }

    ThreadFabric fabric{3};
    const std::unique_ptr<Fabric> rank_zero = fabric.join(0);
    Seat seat{fabric.join(1)};

private:
    Result<> outcome_ = failure(Errc::device, "it has not left");
    std::thread thread_;
};

TEST(Worker, HearsThatItIsToLeaveWhileAGroupIsMade) {
    for (const bool is_batched : {false, true}) {
        Alone worker;
        worker.welcome();
        worker.say(message_with({.kind = Kind::group}, {1, 7, 1, 1}));
        EXPECT_TRUE(worker.answers()) << "it waits for the others";
        const auto begin_of_wait = Clock::now();
        if (is_batched) {
            ByteWriter batch = begin({.kind = Kind::batch});
            batch.raw(message_with({.kind = Kind::ping}));
            batch.raw(message_with({.kind = Kind::goodbye}));
            worker.say(seal(std::move(batch)));
        }
        const Result<> outcome = worker.end();
        EXPECT_TRUE(outcome) << outcome.error().message;
        EXPECT_LT(Clock::now() - begin_of_wait, std::chrono::seconds(2));
    }
}

TEST(Worker, HearsThatItIsToLeaveWhileItHashesAFile) {
    constexpr std::uint64_t kLong = std::uint64_t{32} << 30;  // zeros that are on no disk
    const OtherFolder folder("-large");
    const std::string path = folder.path / "large.gguf";
    const ggml_context_ptr context = small_context();
    const gguf_context_ptr model(gguf_init_empty());
    ggml_tensor* const tensor = ggml_new_tensor_1d(context.get(), GGML_TYPE_I8, kLong);
    gguf_add_tensor(model.get(), ggml_set_name(tensor, "zeros"));
    ASSERT_TRUE(gguf_write_to_file(model.get(), path.c_str(), true));
    std::filesystem::resize_file(path, std::filesystem::file_size(path) + kLong);
    ByteWriter offer = begin({.kind = Kind::offer}), file = begin({.kind = Kind::file});
    offer.put(1U);
    put_offer(offer, {kLong, sha256(Bytes(TensorOffer::kBegin))});
    const std::uint64_t size = std::filesystem::file_size(path), part = part_of(size);
    FileSamples samples;
    samples.size = size;
    samples.block = part;
    samples.is_full = true;
    for (std::uint64_t at = 0; at < size; at += part) samples.blocks.push_back({at, {}});
    file.put(1U);
    file.put(1U);
    file.text(path);
    put_samples(file, samples);
    for (ByteWriter* question : {&offer, &file}) {
        Alone worker(cpu(), {.threads = 1, .folders = {folder.path}});
        worker.welcome();
        worker.say(seal(std::move(*question)));
        std::this_thread::sleep_for(milliseconds(100));
        const auto before = Clock::now();
        EXPECT_TRUE(worker.end());
        EXPECT_LT(Clock::now() - before, std::chrono::seconds(3)) << "hashing takes at least ten";
    }
}

TEST(Worker, DoesNotLeaveWhenItIsAskedAboutAStreamThatWasJustFreed) {
    Alone worker;
    const auto other = worker.fabric.join(2);
    worker.welcome();
    worker.say(message_with({.kind = Kind::new_stream, .stream = 1}, {1, 0}));
    EXPECT_TRUE(worker.answers());
    worker.say(message_with({.kind = Kind::free_stream, .stream = 1}));
    worker.say(message_with({.kind = Kind::watch, .stream = 1, .place = 3}, {2}));
    EXPECT_TRUE(worker.answers());
    worker.say(message_with({.kind = Kind::spans, .stream = 1}, {3}));
    EXPECT_TRUE(worker.answers());
    worker.say(message_with({.kind = Kind::notify, .stream = 1, .place = 3}, {2, 7}));
    EXPECT_FALSE(next_of(*other, Kind::notice).empty());
    EXPECT_TRUE(worker.end());
}

TEST(Worker, HoldsAnotherBackThatSendsTooMuchBeforeItCanDealWithIt) {
    Alone worker;  // rank 0 has not taken it in yet
    ByteWriter receipt = begin({.kind = Kind::taken}, kChunk);
    receipt.extend(kChunk - 64);
    const Bytes message = seal(std::move(receipt));
    for (int i = 0; i < 64; ++i) worker.fabric.inject(2, 1, message);
    std::this_thread::sleep_for(milliseconds(100));
    EXPECT_GT(worker.fabric.waiting(2, 1), 32U);
    worker.welcome();
    for (int i = 0; i < 20'000 && worker.fabric.waiting(2, 1) > 0; ++i) {
        std::this_thread::sleep_for(milliseconds(1));
    }
    EXPECT_EQ(worker.fabric.waiting(2, 1), 0U) << "it goes on when it has dealt with them";
    EXPECT_TRUE(worker.end());
}

// ---- slowness ----------------------------------------------------------------------------------

std::atomic<milliseconds> start_takes{milliseconds(0)};

ggml_backend_dev_t cpu_that_is_slow_to_start() {
    static ggml_backend_device slow = *cpu();
    slow.iface.init_backend = [](ggml_backend_dev_t, const char*) {
        std::this_thread::sleep_for(start_takes.load());
        return ggml_backend_cpu_init();
    };
    start_takes = milliseconds(0);
    return &slow;
}
constexpr milliseconds kTooLong = kShortTimeout * 7 / 2;  ///< three of silence are too many

TEST(Worker, DoesNotTakeItsOwnSlownessForSilence) {
    Alone worker(cpu_that_is_slow_to_start());
    worker.welcome(kShortTimeout);
    worker.say(message_with({.kind = Kind::new_stream, .stream = 1}, {1, 0}));
    EXPECT_TRUE(worker.answers());
    std::this_thread::sleep_for(milliseconds(20));  // from now on the stream's thread looks
    start_takes = kTooLong;
    worker.say(message_with({.kind = Kind::new_stream, .stream = 2}, {2, 0}));
    const Result<> outcome = worker.end();
    EXPECT_TRUE(outcome) << outcome.error().message;
}

TEST(Worker, StillSendsWhatItWasAskedForAfterItsOwnSlowness) {
    constexpr std::uint32_t kBuffer = 3, kBytes = 64;
    Alone worker(cpu_that_is_slow_to_start());
    worker.welcome(kShortTimeout);
    worker.say(message_with({.kind = Kind::new_stream, .stream = 1}, {1, 0}));
    EXPECT_TRUE(worker.answers());
    worker.say(message_with({.kind = Kind::allocate}, {2, 0, 0, kBuffer, kBytes, 0}));
    EXPECT_TRUE(worker.answers());
    worker.seat.is_stuck = true;
    const ggml_context_ptr context = small_context();
    Record record = describe_alone(*ggml_new_tensor_1d(context.get(), GGML_TYPE_I8, kBytes));
    record.memory = kBuffer;
    ByteWriter read = begin({.kind = Kind::stream_read, .stream = 1, .place = 1});
    read.put(4U);
    put_record(read, record);
    put_pieces(read, {0, kBytes, 1, 0, 0});
    worker.say(seal(std::move(read)));
    wait_a_while_until(
        [&] { return worker.seat.asked > 0; });  // the stream's thread waits for room
    start_takes = kTooLong;
    worker.say(message_with({.kind = Kind::new_stream, .stream = 2}, {5, 0}));
    worker.say(message_with({.kind = Kind::ping}));
    std::this_thread::sleep_for(kTooLong);
    EXPECT_TRUE(worker.answers());
    worker.seat.is_stuck = false;
    EXPECT_FALSE(next_of(*worker.rank_zero, Kind::data).empty());
    EXPECT_TRUE(worker.end());
}

// ---- its threads -------------------------------------------------------------------------------

/// What threads of streams need of a worker.
struct Threads {
    explicit Threads(std::function<void(Message)> handle)
        : driver(outbox, {.handle = std::move(handle),
                          .hear = [](const Message&) {},
                          .drop_out = [this](const Error&) { has_left = true; }}) {
        streams.make_enough(1);
    }
    ~Threads() {
        driver.stop();
        streams.end();
    }
    Threads(const Threads&) = delete;
    Threads& operator=(const Threads&) = delete;

    ThreadFabric fabric{2};
    std::atomic<bool> has_left{false};
    const std::unique_ptr<Fabric> seat = fabric.join(1);
    Outbox outbox{*seat};
    Driver driver;
    StreamThreads streams{driver};
    std::shared_ptr<Executor> stream =
        std::make_shared<Executor>(Executor::Surroundings{outbox, driver, streams}, 1, 0, nullptr);
};

TEST(Worker, LeavesWhenAStreamCannotTellOthersThatItFailed) {
    Threads threads([](Message) {});
    Executor& stream = *threads.stream;
    const auto fails = [] { return Result<>(failure(Errc::device, "oh")); };
    EXPECT_TRUE(stream.submit({.place = 1, .run = fails}));
    EXPECT_TRUE(stream.submit({.place = 2, .skip = [](const Error&) { throw std::bad_alloc(); }}));
    EXPECT_EQ(stream.wait_for(2).error().message, "oh");
    EXPECT_TRUE(threads.has_left);
}

ggml_abort_callback asked_by_device = nullptr;
void* asked_about = nullptr;

TEST(Worker, TellsItsDevicesToStopWhenItLeaves) {
    ggml_backend_reg registration = *ggml_backend_cpu_reg();
    registration.iface.get_proc_address = [](ggml_backend_reg_t, const char*) {
        const ggml_backend_set_abort_callback_t set = [](ggml_backend_t,
                                                         ggml_abort_callback callback, void* data) {
            asked_by_device = callback;
            asked_about = data;
        };
        return reinterpret_cast<void*>(set);
    };
    ggml_backend_device device = *cpu();
    device.reg = &registration;
    Threads threads([](Message) {});
    threads.stream->let_device_ask(&device);
    std::atomic<bool> is_at_it{false}, is_stopped{false};
    const auto compute = [&] {
        EXPECT_FALSE(asked_by_device(asked_about));
        is_at_it = true;
        wait_a_while_until([&] { return is_stopped = asked_by_device(asked_about); });
        return ok();
    };
    EXPECT_TRUE(threads.stream->submit({.place = 1, .run = compute}));
    wait_a_while_until([&] { return is_at_it.load(); });
    threads.stream->abandon();
    threads.driver.stop();
    threads.streams.end();
    EXPECT_TRUE(is_stopped);
}

TEST(Worker, ListensAfterAMessageThatItHadNoMemoryFor) {
    std::atomic<int> handled{0};
    ThreadFabric fabric(2);
    const auto seat = fabric.join(1);
    Outbox outbox(*seat);
    Driver driver(outbox, {.handle =
                               [&](Message) {
                                   if (++handled == 1) throw std::bad_alloc();
                               },
                           .hear = [](const Message&) {},
                           .drop_out = [](const Error&) {}});
    for (int i = 0; i < 2; ++i) fabric.inject(0, 1, message_with({.kind = Kind::ping}));
    EXPECT_THROW(driver.wait([] { return false; }), std::bad_alloc);
    EXPECT_FALSE(driver.is_handling());
    driver.stand_in(milliseconds(50), true);
    EXPECT_EQ(handled, 2);
}

// ---- weights -----------------------------------------------------------------------------------

std::atomic<int> writing{0}, resets{0}, resets_meanwhile{0};

void write_slowly(ggml_backend_buffer_t, ggml_tensor* tensor, const void* data, std::size_t offset,
                  std::size_t size) {
    ++writing;
    std::this_thread::sleep_for(milliseconds(100));
    std::memcpy(static_cast<std::byte*>(tensor->data) + offset, data, size);
    --writing;
}

/// The CPU, but what is written there takes a while.
TestJob::Serving slow_memory() {
    static ggml_backend_device device = *cpu();
    static ggml_backend_buffer_type type = *ggml_backend_cpu_buffer_type();
    type.device = &device;
    type.iface.alloc_buffer = [](ggml_backend_buffer_type_t, std::size_t size) {
        const ggml_backend_buffer_t buffer =
            ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(), size);
        buffer->buft = &type;
        buffer->iface.set_tensor = write_slowly;
        buffer->iface.reset = [](ggml_backend_buffer_t) {
            ++resets;
            resets_meanwhile += writing;
        };
        return buffer;
    };
    device.iface.get_buffer_type = [](ggml_backend_dev_t) { return &type; };
    return {.device = &device};
}

TEST(Worker, IsNotHeldUpByWeightsWhenRankZeroHasLeft) {
    const MappedFile model("-z.gguf", kSize);
    for (const bool says_goodbye : {true, false}) {
        Settings settings;
        settings.timeout = kShortTimeout;
        There there(settings, slow_memory());
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

TEST(WeightsByPath, AreThereBeforeTheirBufferIsReset) {
    const MappedFile model("-u.gguf", kSize);
    There there({}, slow_memory());
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(load_file(there.tensor, model.path, 0));
    wait_a_while_until([] { return writing > 0; });
    ggml_backend_buffer_reset(there.buffer.get());
    there.read(1);
    EXPECT_EQ(resets, 1);
    EXPECT_EQ(resets_meanwhile, 0);
}

TEST(Streams, GoOnWhileAnotherOneWaitsForWeights) {
    const MappedFile model("-v.gguf", kSize);
    There there({}, slow_memory());
    const ggml_backend_dev_t device = there.job.device(0);
    const std::uint32_t waiting = there.job.cluster->next_number() + 1;
    const ggml_backend_ptr first(ggml_backend_dev_init(device, nullptr));
    const ggml_backend_ptr second(ggml_backend_dev_init(device, nullptr));
    const ggml_backend_buffer_ptr buffer(
        ggml_backend_buft_alloc_buffer(ggml_backend_dev_buffer_type(device), kLittle));
    ggml_tensor* const other = ggml_new_tensor_1d(there.context.get(), GGML_TYPE_I8, 16);
    ggml_backend_tensor_alloc(buffer.get(), other, ggml_backend_buffer_get_base(buffer.get()));
    std::this_thread::sleep_for(milliseconds(20));  // from now on a stream's thread looks
    constexpr int kLoads = 50;                      // five seconds
    for (int i = 0; i < kLoads; ++i) ASSERT_TRUE(load_file(there.tensor, model.path, 0));
    const std::vector<std::byte> bytes(16);
    ggml_backend_tensor_set_async(first.get(), there.tensor, bytes.data(), 0, bytes.size());
    ggml_backend_tensor_set_async(second.get(), other, bytes.data(), 0, bytes.size());
    ggml_backend_synchronize(second.get());
    EXPECT_FALSE(there.job.cluster->is_done(waiting, 1));
}

}  // namespace
}  // namespace heddle::mpi
