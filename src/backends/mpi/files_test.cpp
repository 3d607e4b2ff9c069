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
    const auto samples = sample_file(file.path, 1);
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

/// Writes a mapped file as a tensor to a worker and reads it back; gives the bytes sent.
std::size_t send_as_tensor(const MappedFile& file) {
    TestJob job(1);
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
