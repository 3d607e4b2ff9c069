// Weights that workers read from files of their own.
#include "backends/mpi/client/files.hpp"

#include <gmock/gmock.h>

#include <functional>

#include "backends/mpi/file_test_support.hpp"
#include "backends/mpi/test_support.hpp"

namespace heddle::mpi {
namespace {

using testing::HasSubstr;

TEST(MappedBytes, AreFoundInTheirFileUntilTheyAreChanged) {
    const MappedFile file("-a.gguf", std::size_t{3} << 20, PROT_READ | PROT_WRITE);
    const std::size_t half = file.size / 2;
    const auto found = mapped_from(file.data + half, half);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->path, file.path);
    EXPECT_EQ(found->offset, half);
    file.data[half + 5000] ^= std::byte{1};
    EXPECT_FALSE(mapped_from(file.data + half, half)) << "these are not the file's any more";
    EXPECT_TRUE(mapped_from(file.data, half / 2)) << "these still are";
    EXPECT_FALSE(mapped_from(file.data, 2 * file.size)) << "past the end";
    const std::vector<std::byte> heap(1 << 20);
    EXPECT_FALSE(mapped_from(heap.data(), heap.size()));
}

Result<FileSamples> samples_of(const std::string& path, Verify how) {
    DigestStore digests;
    HEDDLE_TRY_ASSIGN(const OpenFile file, OpenFile::open(path));
    return sample_file(file, 1, how, digests);
}

Result<std::vector<std::uint32_t>> compared(const std::string& path, const FileSamples& samples) {
    DigestStore digests;
    HEDDLE_TRY_ASSIGN(const OpenFile file, OpenFile::open(path));
    return compare(file, samples, "there", digests);
}

TEST(Samples, TellFilesApart) {
    const MappedFile file("-b.gguf", 100'000);
    const auto samples = samples_of(file.path, Verify::sample);
    ASSERT_TRUE(samples);
    EXPECT_TRUE(compared(file.path, *samples));
    FileSamples longer = *samples;
    ++longer.size;
    EXPECT_EQ(compared(file.path, longer).error().message, "there has 100000 bytes, not 100001");
    FileSamples other = *samples;
    other.blocks[0].digest[0] ^= std::byte{1};
    EXPECT_EQ(compared(file.path, other).error().message,
              "there differs from the file here between bytes 0 and 65536");
    EXPECT_THAT(OpenFile::open("/no/such.gguf").error().message, HasSubstr("No such file"));
    EXPECT_EQ(OpenFile::open("/tmp").error().message, "/tmp is no regular file");
}

TEST(Samples, OfAllOfAFileTellWhereItDiffers) {
    const std::size_t part = FileSamples::kPart;
    const auto content = model_bytes({part, part, 5000}, 1);
    const MappedFile file("-g.gguf", content), other("-h.gguf", content);
    const auto all = samples_of(file.path, Verify::full);
    const auto size = samples_of(file.path, Verify::off);
    ASSERT_TRUE(all && size);
    EXPECT_EQ(all->blocks.size(), 3U);
    EXPECT_EQ(size->blocks.size(), 0U);
    EXPECT_EQ(compared(other.path, *all)->size(), 0U);
    write_at(other.path, part + 4999, "xyz");
    EXPECT_EQ(*compared(other.path, *all), std::vector<std::uint32_t>{1});
    EXPECT_TRUE(compared(other.path, *size));
    for (const FileSamples& samples : {*all, *size}) {
        ByteWriter out;
        put_samples(out, samples);
        ByteReader in(out.view());
        const auto again = get_samples(in);
        ASSERT_TRUE(again);
        EXPECT_EQ(again->head_digest, samples.head_digest);
        EXPECT_EQ(compared(other.path, *again)->size(), samples.is_full ? 1U : 0U);
    }
}

TEST(Samples, OfAFileWithOtherKeysAreOthersWhereverBlocksLie) {
    const auto content = model_bytes({1 << 20}, 1);
    const MappedFile file("-l.gguf", content), other("-m.gguf", content);
    write_at(other.path, 24 + 8, "TEST");  // the first key: behind the header and its length
    for (const Verify how : {Verify::sample, Verify::full}) {
        const auto samples = samples_of(file.path, how);
        ASSERT_TRUE(samples);
        EXPECT_LT(samples->head, 1000U);
        EXPECT_EQ(compared(other.path, *samples).error().message,
                  "there differs from the file here between bytes 0 and " +
                      std::to_string(samples->head));
    }
}

TEST(Samples, OfWhatIsNoModelMustAllBeTheSame) {
    const MappedFile file("-n.gguf", FileSamples::kPart + 5000);
    const MappedFile other("-o.gguf", FileSamples::kPart + 5000);
    write_at(other.path, FileSamples::kPart + 1, "xyz");
    EXPECT_EQ(compared(other.path, *samples_of(file.path, Verify::full)).error().message,
              "there differs from the file here between bytes 16777216 and 16782216");
}

TEST(Samples, OfVeryLongFilesHaveLongerBlocks) {
    EXPECT_EQ(part_of(std::uint64_t{42} << 30), FileSamples::kPart);
    EXPECT_EQ(part_of(std::uint64_t{256} << 30), FileSamples::kPart);
    EXPECT_EQ(part_of((std::uint64_t{256} << 30) + 1), 2 * FileSamples::kPart);
}

TEST(Samples, ThatCannotBeAreRefused) {
    const auto refused = [](const std::function<void(FileSamples&)>& change) {
        FileSamples samples;
        samples.size = 100;
        samples.block = 10;
        samples.is_full = true;
        samples.blocks.resize(10);
        change(samples);
        ByteWriter out;
        put_samples(out, samples);
        ByteReader in(out.view());
        return !get_samples(in);
    };
    EXPECT_FALSE(refused([](FileSamples&) {}));
    EXPECT_TRUE(refused([](FileSamples& samples) { samples.blocks.pop_back(); }));
    EXPECT_TRUE(refused([](FileSamples& samples) { samples.block = 0; }));
    EXPECT_TRUE(refused([](FileSamples& samples) { samples.head = 101; }));
    EXPECT_TRUE(refused([](FileSamples& samples) {
        samples.is_full = false;
        samples.blocks[3].offset = 100;
    }));
    EXPECT_TRUE(refused([](FileSamples& samples) {
        samples.is_full = false;
        samples.block = FileSamples::kPart + 1;
    }));
    for (const std::vector<std::uint32_t>& lie :
         std::vector<std::vector<std::uint32_t>>{{7}, {3, 3}, {4, 2}, {1, 2, 3, 4, 5, 6, 0, 0}}) {
        ByteWriter out;
        put_differences(out, lie);
        ByteReader in(out.view());
        EXPECT_FALSE(get_differences(in, 7));
    }
}

/// Writes a mapped file as a tensor to a worker and reads it back; gives the bytes sent.
std::size_t send_as_tensor(const MappedFile& file, const Settings& settings = {},
                           const TestJob::Serving& serving = {}) {
    TestJob job(1, 1, settings, serving);
    const ggml_context_ptr context = small_context();
    ggml_tensor* const tensor =
        ggml_new_tensor_1d(context.get(), GGML_TYPE_I8, static_cast<std::int64_t>(file.size));
    const ggml_backend_buffer_ptr buffer(
        ggml_backend_buft_alloc_buffer(ggml_backend_dev_buffer_type(job.device(0)), file.size));
    ggml_backend_tensor_alloc(buffer.get(), tensor, ggml_backend_buffer_get_base(buffer.get()));
    ggml_backend_tensor_set(tensor, file.data, 0, file.size);
    std::vector<std::byte> found(file.size);
    ggml_backend_tensor_get(tensor, found.data(), 0, file.size);
    EXPECT_EQ(std::memcmp(found.data(), file.data, file.size), 0);
    return job.fabric.carried(0, 1);
}

TEST(Weights, OfAFileThatTheWorkerHasAreNotSent) {
    const std::size_t size = std::size_t{5} << 20;
    EXPECT_LT(send_as_tensor(MappedFile("-c.gguf", size)), std::size_t{64} << 10);
    EXPECT_GT(send_as_tensor(MappedFile("-c.bin", size)), size) << "not a model's file";
}

TEST(Weights, AreReadBelowTheFoldersThatAWorkerMayRead) {
    const std::size_t size = std::size_t{5} << 20, little = std::size_t{64} << 10;
    const MappedFile file("-i.gguf", size);
    const OtherFolder copies("-copies"), links("-links"), none("-none");
    const auto name = std::filesystem::path(file.path).filename();
    std::filesystem::copy_file(file.path, copies.path / name);
    std::filesystem::create_symlink(file.path, links.path / name);
    const auto only = [](const std::filesystem::path& folder) {
        TestJob::Serving serving;
        serving.options.folders = {folder};
        return serving;
    };
    EXPECT_LT(send_as_tensor(file, {}, only(copies.path)), little) << "the same name there";
    EXPECT_GT(send_as_tensor(file, {}, only(none.path)), size) << "not there";
    EXPECT_GT(send_as_tensor(file, {}, only(links.path)), size) << "a link out of the folder";
    Settings settings;
    settings.folders = {{std::filesystem::path(file.path).parent_path(), copies.path}};
    EXPECT_LT(send_as_tensor(file, settings), little) << "another path there";
}

TEST(Weights, AreNotReadFromWhatIsNoModel) {
    const MappedFile file("-j.gguf", std::size_t{5} << 20);
    write_at(file.path, 0, "root");
    EXPECT_GT(send_as_tensor(file), file.size);
}

TEST(Paths, OfTheLongestFolderAreTranslated) {
    Settings settings;
    settings.folders = {{"/m", "/a"}, {"/m/big", "/b"}, {"/n/", "/c/"}};
    EXPECT_EQ(path_there(settings, "/m/x.gguf"), "/a/x.gguf");
    EXPECT_EQ(path_there(settings, "/m/big/x.gguf"), "/b/x.gguf");
    EXPECT_EQ(path_there(settings, "/mm/x.gguf"), "/mm/x.gguf");
    EXPECT_EQ(path_there(settings, "/n/x.gguf"), "/c/x.gguf");
}

/// What the library says meanwhile.
class Notes {
public:
    Notes() {
        ggml_log_set([](ggml_log_level, const char* text,
                        void* notes) { static_cast<Notes*>(notes)->add(text); },
                     this);
    }
    ~Notes() { ggml_log_set(nullptr, nullptr); }
    Notes(const Notes&) = delete;
    Notes& operator=(const Notes&) = delete;

    std::string all() {
        const std::lock_guard guard(lock_);
        return all_;
    }

private:
    void add(const char* text) {
        const std::lock_guard guard(lock_);
        all_ += text;
    }

    std::mutex lock_;
    std::string all_;
};

TEST(Weights, OfBlocksThatDifferAreSentAndOthersRead) {
    const std::size_t size = std::size_t{10} << 20;
    const auto content = model_bytes({size, size, size, size}, 3);
    const MappedFile file("-p.gguf", content);
    const OtherFolder there("-there");
    const std::string copy = there.path / std::filesystem::path(file.path).filename();
    std::filesystem::copy_file(file.path, copy);
    write_at(copy, (std::size_t{40} << 20) - 5, "other");
    Settings settings;
    settings.verify = Verify::full;
    settings.folders = {{std::filesystem::path(file.path).parent_path(), there.path}};
    Notes notes;
    TestJob job(1, 1, settings, {});
    const ggml_context_ptr context = small_context();
    const ggml_backend_buffer_ptr buffer(
        ggml_backend_buft_alloc_buffer(ggml_backend_dev_buffer_type(job.device(0)), 4 * size));
    const std::size_t data = content.size() - 4 * size;
    for (std::size_t i = 0; i < 4; ++i) {
        ggml_tensor* const tensor =
            ggml_new_tensor_1d(context.get(), GGML_TYPE_I8, static_cast<std::int64_t>(size));
        ggml_backend_tensor_alloc(
            buffer.get(), tensor,
            static_cast<std::byte*>(ggml_backend_buffer_get_base(buffer.get())) + i * size);
        const std::size_t before = job.cluster->sent(1);
        ggml_backend_tensor_set(tensor, file.data + data + i * size, 0, size);
        std::vector<std::byte> found(size);
        ggml_backend_tensor_get(tensor, found.data(), 0, size);
        EXPECT_EQ(std::memcmp(found.data(), file.data + data + i * size, size), 0);
        // The last block begins at 32 MiB, which is in the last tensor.
        EXPECT_EQ(job.cluster->sent(1) - before > size, i == 3) << "tensor " << i;
    }
    EXPECT_THAT(notes.all(), HasSubstr("MPI1: " + copy + " differs from the file here in 1 of 3 "));
    EXPECT_THAT(notes.all(),
                HasSubstr("the first between bytes 33554432 and " + std::to_string(content.size()) +
                          "; weights that lie in them are sent instead"));
}

TEST(Weights, OfAFileWithASampleThatDiffersAreAllSent) {
    const std::size_t size = std::size_t{3} << 20;
    const MappedFile file("-q.gguf", model_bytes({size}, 4));
    const OtherFolder there("-there");
    const std::string copy = there.path / std::filesystem::path(file.path).filename();
    std::filesystem::copy_file(file.path, copy);
    for (std::size_t i = 4096; i < size; i += 4096) write_at(copy, i, "other");
    Settings settings;
    settings.folders = {{std::filesystem::path(file.path).parent_path(), there.path}};
    EXPECT_GT(send_as_tensor(file, settings), size);
}

/// A tensor of a worker that was written from a mapped file of twice its size.
struct FromFile {
    explicit FromFile(const MappedFile& file, const Settings& settings = {})
        : bytes(file.size / 2),
          job(1, 1, settings, {}),
          buffer(ggml_backend_buft_alloc_buffer(ggml_backend_dev_buffer_type(job.device(0)),
                                                file.size)) {
        heddle_set_error_mode(HEDDLE_ERROR_MODE_RETURN);
        tensor = ggml_new_tensor_1d(context.get(), GGML_TYPE_I8, static_cast<std::int64_t>(bytes));
        ggml_backend_tensor_alloc(buffer.get(), tensor, ggml_backend_buffer_get_base(buffer.get()));
        write(file);
        EXPECT_EQ(read(), content(file)) << "the worker knows the file now";
    }

    void write(const MappedFile& file) {
        heddle_clear_error();
        ggml_backend_tensor_set(tensor, file.data, 0, bytes);
    }
    std::vector<std::byte> read() {
        std::vector<std::byte> found(bytes);
        ggml_backend_tensor_get(tensor, found.data(), 0, bytes);
        return found;
    }
    std::vector<std::byte> content(const MappedFile& file) const {
        return {file.data, file.data + bytes};
    }

    std::size_t bytes;
    TestJob job;
    ggml_context_ptr context = small_context();
    ggml_backend_buffer_ptr buffer;
    ggml_tensor* tensor = nullptr;
};

TEST(Weights, OfAFewBytesAreNotSentEitherOnceTheFileIsKnown) {
    const MappedFile file("-k.gguf", std::size_t{2} << 20);
    FromFile weights(file);
    const auto sent_by = [&](const std::byte* from) {
        const std::size_t before = weights.job.cluster->sent(1);
        ggml_backend_tensor_set(weights.tensor, from, 0, 2000);
        std::byte first{};
        ggml_backend_tensor_get(weights.tensor, &first, 0, 1);
        EXPECT_EQ(first, *from);
        return weights.job.cluster->sent(1) - before;
    };
    EXPECT_LT(sent_by(file.data + 5000), 1000U);
    std::vector<std::byte> elsewhere(2000);
    for (std::size_t i = 0; i < elsewhere.size(); ++i) elsewhere[i] = static_cast<std::byte>(i);
    EXPECT_GT(sent_by(elsewhere.data()), 2000U);
}

TEST(Weights, OfColumnsOfAMatrixAreNotSentEither) {
    const MappedFile file("-p.gguf", std::size_t{8} << 20);
    FromFile weights(file);
    struct Case {
        std::size_t rows, row, width;  ///< bytes of a row in the file, and of its part
    };
    // Read with what lies between them, by themselves, and in parts.
    for (const auto& [rows, row, width] :
         {Case{1000, 8000, 3000}, Case{7, 1 << 20, 500'000}, Case{1, 7 << 20, 5'000'000}}) {
        const std::size_t before = weights.job.cluster->sent(1), wide = width + 16;
        std::vector<std::byte> expected = weights.read();
        for (std::size_t i = 0; i < rows && i * wide + width <= weights.bytes; ++i) {
            std::memcpy(&expected[i * wide], file.data + 40 + i * row, width);
        }
        const std::size_t fitting = std::min(rows, (weights.bytes - width) / wide + 1);
        ggml_backend_tensor_set_2d(weights.tensor, file.data + 40, 0, width, fitting, wide, row);
        EXPECT_EQ(weights.read(), expected) << rows << " rows";
        EXPECT_LT(weights.job.cluster->sent(1) - before, 1000U);
    }
}

TEST(Weights, OfAFileThatIsCutShortThereFailWhatReadsThem) {
    const MappedFile file("-d.gguf", std::size_t{8} << 20);
    FromFile weights(file);
    const auto written = std::filesystem::last_write_time(file.path);
    std::filesystem::resize_file(file.path, 4096);
    std::filesystem::last_write_time(file.path, written);  // as if it were whole here
    weights.write(file);
    weights.read();
    EXPECT_THAT(heddle_last_error(), HasSubstr("cannot be read: the file ends before it"));
}

TEST(Weights, OfAFileThatIsWrittenToThereFailWhatReadsThem) {
    const MappedFile file("-w.gguf", std::size_t{8} << 20);
    const OtherFolder there("-there");
    const auto copy = there.path / std::filesystem::path(file.path).filename();
    std::filesystem::copy_file(file.path, copy);
    Settings settings;
    settings.folders = {{std::filesystem::path(file.path).parent_path(), there.path}};
    FromFile weights(file, settings);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    write_at(copy, 5 << 20, "other");
    weights.write(file);
    weights.read();
    EXPECT_THAT(heddle_last_error(), HasSubstr("was written to after it was compared"));
}

TEST(Weights, OfAFileThatIsCutShortHereAreRefusedBeforeTheyAreLookedAt) {
    const MappedFile file("-e.gguf", std::size_t{8} << 20);
    FromFile weights(file);
    std::filesystem::resize_file(file.path, 4096);
    weights.write(file);
    EXPECT_THAT(heddle_last_error(),
                HasSubstr("-e.gguf: byte 4096 cannot be read: the file ends before it"));
}

TEST(Weights, OfAFileThatWasReplacedAreThoseOfTheNewOne) {
    auto file = std::make_unique<MappedFile>("-f.gguf", std::size_t{8} << 20);
    FromFile weights(*file);
    const std::string path = file->path;
    file.reset();
    MappedFile other("-f.gguf", std::size_t{6} << 20);
    ASSERT_EQ(other.path, path);
    std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now());
    write_at(path, 1 << 20, "other");
    weights.write(other);
    EXPECT_EQ(weights.read(), weights.content(other));
}

}  // namespace
}  // namespace heddle::mpi
