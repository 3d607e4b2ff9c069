#pragma once

#include <gmock/gmock.h>

#include "backends/mpi/file_test_support.hpp"
#include "backends/mpi/test_support.hpp"

namespace heddle::mpi {

constexpr std::size_t kSize = std::size_t{2} << 20, kLittle = std::size_t{64} << 10;

/// A tensor of a worker's.
struct There {
    There(const Settings& settings, const TestJob::Serving& serving)
        : job(1, 1, settings, serving) {
        heddle_set_error_mode(HEDDLE_ERROR_MODE_RETURN);
        heddle_clear_error();
        buffer.reset(
            ggml_backend_buft_alloc_buffer(ggml_backend_dev_buffer_type(job.device(0)), 2 * kSize));
        tensor = ggml_new_tensor_1d(context.get(), GGML_TYPE_I8, std::int64_t{kSize});
        ggml_backend_tensor_alloc(buffer.get(), tensor, ggml_backend_buffer_get_base(buffer.get()));
    }

    /// Bytes that were sent for it.
    std::size_t write(std::span<const std::byte> bytes) {
        const std::size_t before = job.cluster->sent(1);
        ggml_backend_tensor_set(tensor, bytes.data(), 0, bytes.size());
        EXPECT_EQ(read(bytes.size()), std::vector<std::byte>(bytes.begin(), bytes.end()));
        return job.cluster->sent(1) - before;
    }
    std::vector<std::byte> read(std::size_t size = kSize, std::size_t offset = 0) {
        std::vector<std::byte> found(size);
        ggml_backend_tensor_get(tensor, found.data(), offset, size);
        return found;
    }
    void lose_worker() {
        job.fabric.silence(1);
        EXPECT_THAT(loss_of(job, 1), testing::HasSubstr("nothing was heard"));
        heddle_clear_error();
    }

    TestJob job;
    ggml_context_ptr context = small_context();
    ggml_backend_buffer_ptr buffer;
    ggml_tensor* tensor = nullptr;
};

/// See heddle_backend_load_file_t.
inline bool load_file(ggml_tensor* tensor, const std::string& path, std::uint64_t offset) {
    heddle_clear_error();
    return reinterpret_cast<heddle_backend_load_file_t>(ggml_backend_reg_get_proc_address(
        ggml_backend_mpi_reg(), "heddle_backend_load_file"))(tensor, path.c_str(), offset);
}

}  // namespace heddle::mpi
