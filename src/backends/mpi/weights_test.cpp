// Weights that a worker finds in files of its own by their digest, or is told to load.
#include <gmock/gmock.h>

#include <atomic>
#include <functional>
#include <thread>

#include "backends/mpi/weights_test_support.hpp"
#include "backends/mpi/worker/loader.hpp"
#include "backends/mpi/worker/tensor_index.hpp"

namespace heddle::mpi {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

/// A folder of a worker's with a model in it.
struct ModelThere {
    explicit ModelThere(unsigned seed)
        : content(model_bytes({kSize, kSize + 32, kSize}, seed)),
          file(folder.path / "below" / "some.gguf") {
        fs::create_directories(file.parent_path());
        write(content);
    }
    void write(const std::vector<std::byte>& bytes) const {
        std::ofstream(file, std::ios::binary)
            .write(reinterpret_cast<const char*>(bytes.data()), static_cast<long>(bytes.size()));
    }
    /// As a program has it that reads files into its memory.
    std::vector<std::byte> last_tensor() const { return {content.end() - kSize, content.end()}; }
    TestJob::Serving serving() const {
        TestJob::Serving serving;
        serving.options.folders = {folder.path};
        return serving;
    }

    const OtherFolder folder{"-models"};
    const std::vector<std::byte> content;
    const fs::path file;
};

Settings always() {
    Settings settings;
    settings.offering = Offering::always;
    return settings;
}

// ---- by their digest ---------------------------------------------------------------------------

TEST(WeightsInMemory, ThatAWorkerHasInAFileAreNotSent) {
    const ModelThere model(1);
    There there(always(), model.serving());
    EXPECT_LT(there.write(model.last_tensor()), kLittle);
}

TEST(WeightsInMemory, ThatDifferBehindTheirBeginningAreSent) {
    const ModelThere model(2);
    auto other = model.last_tensor();
    other[kSize - 1] ^= std::byte{1};
    There there(always(), model.serving());
    EXPECT_GT(there.write(other), kSize);
}

TEST(WeightsInMemory, AreOfferedTheFirstTimeOnly) {
    const ModelThere model(3);
    There there(always(), model.serving());
    EXPECT_LT(there.write(model.last_tensor()), kLittle);
    EXPECT_GT(there.write(model.last_tensor()), kSize) << "what is written again is no weight";
}

TEST(WeightsInMemory, AreNotOfferedInPartsOrWhereGraphsCompute) {
    const ModelThere model(4);
    {
        There there(always(), model.serving());
        ggml_backend_buffer_set_usage(there.buffer.get(), GGML_BACKEND_BUFFER_USAGE_COMPUTE);
        EXPECT_GT(there.write(model.last_tensor()), kSize);
    }
    There there(always(), model.serving());
    EXPECT_GT(there.write(std::span(model.content).last(kSize).first(kSize / 2)), kSize / 2);
}

TEST(WeightsInMemory, AreOfferedOnlyWhereThatIsAskedForOrWorthIt) {
    const ModelThere model(5);
    Settings never, automatic;
    never.offering = Offering::never;
    There not_at_all(never, model.serving()), on_this_machine(automatic, model.serving());
    There without_files(always(), {});
    const std::size_t sent = not_at_all.write(model.last_tensor());
    EXPECT_GT(sent, kSize);
    EXPECT_NEAR(double(on_this_machine.write(model.last_tensor())), double(sent), 60)
        << "copying is faster than hashing; a ping may have come between";
    EXPECT_NEAR(double(without_files.write(model.last_tensor())), double(sent), 60)
        << "not even a question";
}

TEST(WeightsInMemory, AreFoundInAFileThatIsServed) {
    const auto content = model_bytes({kSize, kSize}, 6);
    const MappedFile file("-served.gguf", content);
    There there(always(), {});
    EXPECT_LT(there.write({file.data + kLittle, kSize}), kLittle) << "no tensor, but mapped";
    ggml_tensor* const second =
        ggml_new_tensor_1d(there.context.get(), GGML_TYPE_I8, std::int64_t{kSize});
    ggml_backend_tensor_alloc(
        there.buffer.get(), second,
        static_cast<std::byte*>(ggml_backend_buffer_get_base(there.buffer.get())) + kSize);
    there.tensor = second;
    EXPECT_LT(there.write(std::span(content).last(kSize)), kLittle);
}

TEST(WeightsInMemory, AreNotTakenFromAFileThatHasChanged) {
    const ModelThere model(7);
    TensorIndex index({fs::canonical(model.folder.path)});
    const auto tensor = model.last_tensor();
    const TensorOffer offer{kSize, sha256(ByteView(tensor).first(TensorOffer::kBegin))};
    const auto found = index.find(offer);
    ASSERT_EQ(found.matches.size(), 1U);
    EXPECT_EQ(found.known, 3U);
    EXPECT_EQ(found.matches[0].digest, *digest_of(ByteView(tensor)));
    EXPECT_EQ(found.matches[0].place, model.content.size() - kSize);
    EXPECT_NE(index.file(found.matches[0].file), nullptr);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    write_at(model.file, model.content.size() - 1, "x");
    EXPECT_TRUE(index.find(offer).matches.empty());
}

TEST(TensorIndex, KeepsToItsLimits) {
    const ModelThere model(8);
    fs::copy_file(model.file, model.folder.path / "second.gguf");
    fs::create_symlink(model.file, model.folder.path / "below" / "link.gguf");
    std::ofstream(model.folder.path / "broken.gguf") << "GGUF";
    const auto tensor = model.last_tensor();
    const TensorOffer offer{kSize, sha256(ByteView(tensor).first(TensorOffer::kBegin))};
    const auto known = [&](const TensorIndex::Limits& limits) {
        TensorIndex index({fs::canonical(model.folder.path)}, limits);
        return index.find(offer).known;
    };
    EXPECT_EQ(known({}), 6U) << "two files, one of them also by a link";
    EXPECT_EQ(known({.files = 1}), 3U);
    EXPECT_EQ(known({.tensors = 2}), 2U);
    EXPECT_EQ(known({.depth = 0}), 3U);
    EXPECT_EQ(known({.entries = 0}), 0U);
    EXPECT_EQ(known({.time = std::chrono::milliseconds(-1)}), 0U);
    const OtherFolder outside("-outside");
    fs::create_symlink(model.file, outside.path / "link.gguf");
    TensorIndex index({fs::canonical(outside.path)});
    EXPECT_EQ(index.find(offer).known, 0U) << "a link out of the folder";
    EXPECT_EQ(index.file(5), nullptr);
    EXPECT_EQ(index.file(TensorIndex::kFirst + 5), nullptr);
}

TEST(TensorOffers, ThatCannotBeAreRefused) {
    const auto refused = [](std::size_t count, std::size_t cut) {
        ByteWriter out;
        put_matches(out, {7, std::vector<TensorMatch>(count)});
        ByteReader in(out.view().first(out.size() - cut));
        return !get_matches(in);
    };
    EXPECT_FALSE(refused(TensorMatches::kMost, 0));
    EXPECT_TRUE(refused(TensorMatches::kMost, 1));
    EXPECT_TRUE(refused(TensorMatches::kMost + 1, 0));
    ByteWriter small;
    put_offer(small, {TensorOffer::kLeast - 1, {}});
    ByteReader in(small.view());
    EXPECT_EQ(get_offer(in).error().message, "an offer of a tensor that breaks off");
}

/// A worker of another machine that answers offers as a test says, and nothing else.
class Elsewhere {
public:
    explicit Elsewhere(TensorMatches answer) : answer_(std::move(answer)) {
        WorkerFacts facts = own_facts();
        facts.boot = "another machine";
        facts.has_folders = true;
        ByteWriter hello = begin({.kind = Kind::hello});
        put_facts(hello, facts);
        fabric_.inject(1, 0, seal(std::move(hello)));
        thread_ = std::thread([this] { serve(); });
        auto started = Cluster::start(fabric_.join(0), {});
        EXPECT_TRUE(started) << started.error().message;
        cluster = *std::move(started);
    }
    ~Elsewhere() {
        cluster.reset();
        stops_ = true;
        thread_.join();
    }
    Elsewhere(const Elsewhere&) = delete;
    Elsewhere& operator=(const Elsewhere&) = delete;

    std::unique_ptr<Cluster> cluster;
    std::atomic<int> asked{0};

private:
    void serve() {
        const auto seat = fabric_.join(1);
        while (!stops_) {
            const auto message = seat->receive();
            if (!message) {
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
                continue;
            }
            const auto opened = open(*message);
            if (!opened || opened->header.kind != Kind::offer) continue;
            ByteReader in(opened->body);
            ByteWriter out = begin({.kind = Kind::answer});
            out.put(in.get<std::uint32_t>());
            EXPECT_TRUE(get_offer(in));
            put_outcome(out, ok());
            put_matches(out, answer_);
            seat->send(0, seal(std::move(out)));
            ++asked;
        }
    }

    ThreadFabric fabric_{2};
    const TensorMatches answer_;
    std::atomic<bool> stops_{false};
    std::thread thread_;
};

TEST(WeightsInMemory, AreOfferedToOtherMachinesUnasked) {
    const auto bytes = random_bytes(kSize, 1);
    Elsewhere worker({5,
                      {{TensorIndex::kFirst, 9, Digest{}},
                       {TensorIndex::kFirst + 1, 77, *digest_of(ByteView(bytes))}}});
    DigestOffers offers(*worker.cluster, 1);
    EXPECT_FALSE(offers.find(ByteView(bytes).first(TensorOffer::kLeast - 1), false));
    EXPECT_EQ(worker.asked, 0) << "too small to be worth it";
    const auto found = offers.find(bytes, false);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->file, TensorIndex::kFirst + 1);
    EXPECT_EQ(found->place, 77U);
    EXPECT_EQ(worker.asked, 1);
}

TEST(WeightsInMemory, AreNotFoundByAWorkerThatHasNotHashedThem) {
    const auto bytes = random_bytes(kSize, 1);
    Elsewhere worker({5, {{TensorIndex::kFirst, 9, sha256(bytes)}}});
    DigestOffers offers(*worker.cluster, 1);
    EXPECT_FALSE(offers.find(bytes, false));
    EXPECT_FALSE(offers.find(bytes, false));
    EXPECT_EQ(worker.asked, 2) << "it may have others";
}

TEST(WeightsInMemory, AreOfferedOnceToAWorkerThatHasNone) {
    const auto bytes = random_bytes(kSize, 1);
    Elsewhere worker({0, {}});
    DigestOffers offers(*worker.cluster, 1);
    EXPECT_FALSE(offers.find(bytes, false));
    EXPECT_FALSE(offers.find(bytes, false));
    EXPECT_EQ(worker.asked, 1);
    EXPECT_FALSE(offers.find(bytes, true)) << "since then it has read a file for this program";
    EXPECT_EQ(worker.asked, 2);
}

TEST(WeightsInMemory, ThatADeviceIsMappedToAreNoFiles) {
    const int zeros = ::open("/dev/zero", O_RDONLY);
    auto* const data =
        static_cast<std::byte*>(mmap(nullptr, kSize, PROT_READ, MAP_PRIVATE, zeros, 0));
    close(zeros);
    There there({}, {});
    there.write({data, kSize});
    EXPECT_STREQ(heddle_last_error(), "");
    munmap(data, kSize);
}

// ---- by their path -----------------------------------------------------------------------------

TEST(WeightsByPath, AreReadByTheWorkerOrSent) {
    const MappedFile model("-r.gguf", 2 * kSize), other("-r.bin", 2 * kSize);
    There there({}, {});
    const auto sent_by = [&](const MappedFile& file, std::size_t offset) {
        const std::size_t before = there.job.cluster->sent(1);
        EXPECT_TRUE(load_file(there.tensor, file.path, offset)) << heddle_last_error();
        const auto expected = ByteView(file.data + offset, kSize);
        EXPECT_TRUE(std::ranges::equal(there.read(), expected));
        return there.job.cluster->sent(1) - before;
    };
    EXPECT_LT(sent_by(model, 12345), kLittle);
    EXPECT_GT(sent_by(other, 999), kSize) << "no model's file";
    EXPECT_LT(sent_by(model, kSize), kLittle) << "up to its end";
}

TEST(WeightsByPath, AreThoseThatWereWrittenLast) {
    constexpr std::size_t kMuch = 16 * kSize;  // takes longer than what is written over it
    const MappedFile model("-x.gguf", kMuch);
    TestJob job(1);
    heddle_set_error_mode(HEDDLE_ERROR_MODE_RETURN);
    const ggml_context_ptr context = small_context();
    const ggml_backend_ptr stream(ggml_backend_dev_init(job.device(0), nullptr));
    const ggml_backend_buffer_ptr buffer(
        ggml_backend_buft_alloc_buffer(ggml_backend_dev_buffer_type(job.device(0)), 2 * kMuch));
    const auto tensor_at = [&](std::size_t offset, std::size_t size) {
        ggml_tensor* const made =
            ggml_new_tensor_1d(context.get(), GGML_TYPE_I8, static_cast<std::int64_t>(size));
        ggml_backend_tensor_alloc(
            buffer.get(), made,
            static_cast<std::byte*>(ggml_backend_buffer_get_base(buffer.get())) + offset);
        return made;
    };
    ggml_tensor *const all = tensor_at(0, kMuch), *const other = tensor_at(kMuch, kLittle);
    ggml_tensor* const end = tensor_at(kMuch - kLittle, kLittle);
    const auto expected = random_bytes(kLittle, 1);
    ggml_backend_tensor_set(other, expected.data(), 0, kLittle);
    const auto read_end = [&](const std::function<void()>& write) {
        EXPECT_TRUE(load_file(all, model.path, 0)) << heddle_last_error();
        write();
        ggml_backend_synchronize(stream.get());
        std::vector<std::byte> found(kLittle);
        ggml_backend_tensor_get(end, found.data(), 0, kLittle);
        return found;
    };
    const std::vector<std::byte> first(model.data, model.data + kLittle);
    EXPECT_EQ(read_end([&] { EXPECT_TRUE(load_file(end, model.path, 0)); }), first);
    EXPECT_EQ(read_end([&] { ggml_backend_tensor_copy(other, end); }), expected);
    EXPECT_EQ(read_end([&] {
                  ggml_backend_tensor_set_async(stream.get(), end, expected.data(), 0, kLittle);
              }),
              expected);
    EXPECT_EQ(
        read_end([&] { ggml_backend_tensor_copy_async(stream.get(), stream.get(), other, end); }),
        expected);
}

TEST(WeightsByPath, AreNotWaitedForByAWorkerThatLeaves) {
    const MappedFile model("-y.gguf", kSize);
    auto opened = OpenFile::open(model.path);
    ASSERT_TRUE(opened);
    const auto file = std::make_shared<const OpenFile>(*std::move(opened));
    const ggml_context_ptr context = small_context();
    ServedDevice device(ggml_backend_reg_dev_get(ggml_backend_cpu_reg(), 0));
    Placed placed{*ggml_new_tensor_1d(context.get(), GGML_TYPE_I8, std::int64_t{kSize}), nullptr};
    placed.buffer = std::make_shared<ServedBuffer>(
        ggml_backend_buffer_ptr(ggml_backend_buft_alloc_buffer(device.type(0), kSize)), device, 0,
        0);
    placed.tensor.buffer = placed.buffer->c();
    placed.tensor.data = ggml_backend_buffer_get_base(placed.buffer->c());
    Loader loader;
    loader.submit({file, 0, placed, {0, kSize, 1, 0, 0}});
    EXPECT_TRUE(placed.buffer->wait_for_loads());
    EXPECT_EQ(std::memcmp(placed.tensor.data, model.data, kSize), 0);
    loader.stop();
    loader.submit({file, 0, placed, {0, kSize, 1, 0, 0}});
    EXPECT_EQ(placed.buffer->wait_for_loads().error().message, "the worker leaves");
}

TEST(WeightsByPath, ThatAreNotThereAreRefusedInWords) {
    const MappedFile file("-s.gguf", 2 * kSize);
    There there({}, {});
    EXPECT_FALSE(load_file(there.tensor, file.path, kSize + 1));
    EXPECT_THAT(heddle_last_error(), HasSubstr("-s.gguf: byte 4194304 cannot be read: the file"));
    EXPECT_FALSE(load_file(there.tensor, file.path, UINT64_MAX));
    EXPECT_THAT(heddle_last_error(), HasSubstr("the file ends before it"));
    EXPECT_FALSE(load_file(there.tensor, "/no/such.gguf", 0));
    EXPECT_THAT(heddle_last_error(), HasSubstr("/no/such.gguf: No such file"));
    EXPECT_FALSE(load_file(there.tensor, "/tmp", 0));
    EXPECT_THAT(heddle_last_error(), HasSubstr("/tmp is no regular file"));
    ggml_tensor* const nowhere = ggml_new_tensor_1d(there.context.get(), GGML_TYPE_I8, 5);
    EXPECT_FALSE(load_file(nowhere, file.path, 0));
    EXPECT_THAT(heddle_last_error(), HasSubstr("a tensor of a worker and a path are needed"));
}

}  // namespace
}  // namespace heddle::mpi
