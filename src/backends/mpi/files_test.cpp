// Weights that workers read from files of their own.
#include "backends/mpi/client/files.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "backends/mpi/file_samples.hpp"
#include "backends/mpi/test_support.hpp"

namespace heddle::mpi {
namespace {

using testing::HasSubstr;

/// A file of counting bytes, mapped as programs do it.
class MappedFile {
public:
    MappedFile(const std::string& name, std::size_t size, int protection = PROT_READ)
        : path(testing::TempDir() + std::to_string(getpid()) + name), size(size) {
        std::vector<char> bytes(size);
        for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 7 + i / 251);
        std::memcpy(bytes.data(), "GGUF", 4);
        std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<long>(size));
        const int file = ::open(path.c_str(), O_RDONLY);
        data = static_cast<std::byte*>(mmap(nullptr, size, protection, MAP_PRIVATE, file, 0));
        close(file);
    }
    ~MappedFile() {
        munmap(data, size);
        std::filesystem::remove(path);
    }
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;

    const std::string path;
    const std::size_t size;
    std::byte* data;
};

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

TEST(Samples, TellFilesApart) {
    const MappedFile file("-b.gguf", 100'000);
    const auto samples = sample_file(file.path, 1, Verify::sample);
    ASSERT_TRUE(samples);
    const auto same = OpenFile::open(file.path);
    ASSERT_TRUE(same);
    EXPECT_TRUE(compare(*same, *samples, "b"));
    FileSamples longer = *samples;
    ++longer.size;
    EXPECT_EQ(compare(*same, longer, "b").error().message, "b has 100000 bytes, not 100001");
    FileSamples other = *samples;
    other.blocks[0].hash ^= 1;
    EXPECT_EQ(compare(*same, other, "b").error().message,
              "b differs from the file here between bytes 0 and 65536");
    EXPECT_THAT(OpenFile::open("/no/such.gguf").error().message, HasSubstr("No such file"));
    EXPECT_EQ(OpenFile::open("/tmp").error().message, "/tmp is no regular file");
}

TEST(Samples, OfAllOfAFileTellWhereItDiffers) {
    const std::size_t part = FileSamples::kPart;
    const MappedFile file("-g.gguf", part + 5000), other("-h.gguf", part + 5000);
    const auto all = sample_file(file.path, 1, Verify::full);
    const auto size = sample_file(file.path, 1, Verify::off);
    ASSERT_TRUE(all && size);
    EXPECT_EQ(all->blocks.size(), 2U);
    EXPECT_EQ(size->blocks.size(), 0U);
    const int fd = ::open(other.path.c_str(), O_WRONLY);
    ASSERT_EQ(pwrite(fd, "x", 1, static_cast<off_t>(part + 4999)), 1);
    close(fd);
    const auto opened = OpenFile::open(other.path);
    ASSERT_TRUE(opened);
    EXPECT_EQ(compare(*opened, *all, "h").error().message,
              "h differs from the file here between bytes 16777216 and 16782216");
    EXPECT_TRUE(compare(*opened, *size, "h"));
    for (const FileSamples& samples : {*all, *size}) {
        ByteWriter out;
        put_samples(out, samples);
        ByteReader in(out.view());
        EXPECT_EQ(get_samples(in)->blocks.size(), samples.blocks.size());
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

/// A folder with a copy of a file, or a link to it.
struct OtherFolder {
    explicit OtherFolder(const std::string& name)
        : path(testing::TempDir() + std::to_string(getpid()) + name) {
        std::filesystem::create_directory(path);
    }
    ~OtherFolder() { std::filesystem::remove_all(path); }
    OtherFolder(const OtherFolder&) = delete;
    OtherFolder& operator=(const OtherFolder&) = delete;

    const std::filesystem::path path;
};

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
    const int fd = ::open(file.path.c_str(), O_WRONLY);
    ASSERT_EQ(pwrite(fd, "root", 4, 0), 4);
    close(fd);
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

/// A tensor of a worker that was written from a mapped file of twice its size.
struct FromFile {
    explicit FromFile(const MappedFile& file)
        : bytes(file.size / 2),
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
    TestJob job{1};
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
    const int fd = ::open(path.c_str(), O_WRONLY);
    ASSERT_EQ(pwrite(fd, "other", 5, 1 << 20), 5);
    close(fd);
    weights.write(other);
    EXPECT_EQ(weights.read(), weights.content(other));
}

}  // namespace
}  // namespace heddle::mpi
