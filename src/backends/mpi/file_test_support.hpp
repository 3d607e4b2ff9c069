#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "ggml-cpp.h"
#include "gguf.h"

namespace heddle::mpi {

inline std::string temporary_path(const std::string& name) {
    return testing::TempDir() + std::to_string(getpid()) + name;
}

inline std::vector<std::byte> bytes_of_file(const std::string& path) {
    std::vector<std::byte> bytes(std::filesystem::file_size(path));
    std::ifstream(path, std::ios::binary)
        .read(reinterpret_cast<char*>(bytes.data()), static_cast<long>(bytes.size()));
    return bytes;
}

inline std::vector<std::byte> random_bytes(std::size_t size, unsigned seed) {
    std::mt19937_64 random(seed);
    std::vector<std::byte> bytes(size);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    return bytes;
}

/// Counting bytes behind "GGUF": no model, but what may be served.
inline std::vector<std::byte> counting_bytes(std::size_t size) {
    std::vector<std::byte> bytes(size);
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 251);
    std::memcpy(bytes.data(), "GGUF", 4);
    return bytes;
}

/// A model with tensors of so many random bytes.
inline std::vector<std::byte> model_bytes(std::initializer_list<std::size_t> sizes, unsigned seed) {
    const ggml_context_ptr context(ggml_init({std::size_t{1} << 16, nullptr, true}));
    const gguf_context_ptr model(gguf_init_empty());
    gguf_set_val_u32(model.get(), "test.seed", seed);
    std::vector<std::vector<std::byte>> contents;
    for (const std::size_t size : sizes) {
        ggml_tensor* const tensor =
            ggml_new_tensor_1d(context.get(), GGML_TYPE_I8, static_cast<std::int64_t>(size));
        ggml_set_name(tensor, ("t" + std::to_string(contents.size())).c_str());
        contents.push_back(random_bytes(size, seed + static_cast<unsigned>(contents.size())));
        tensor->data = contents.back().data();
        gguf_add_tensor(model.get(), tensor);
    }
    const std::string path = temporary_path("-model");
    EXPECT_TRUE(gguf_write_to_file(model.get(), path.c_str(), false));
    auto bytes = bytes_of_file(path);
    std::filesystem::remove(path);
    return bytes;
}

/// A file, mapped as programs do it.
class MappedFile {
public:
    MappedFile(const std::string& name, std::size_t size, int protection = PROT_READ)
        : MappedFile(name, counting_bytes(size), protection) {}
    MappedFile(const std::string& name, std::span<const std::byte> content,
               int protection = PROT_READ)
        : path(temporary_path(name)), size(content.size()) {
        std::ofstream(path, std::ios::binary)
            .write(reinterpret_cast<const char*>(content.data()), static_cast<long>(size));
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

/// Writes over bytes of a file in place.
inline void write_at(const std::string& path, std::size_t offset, std::string_view bytes) {
    const int file = ::open(path.c_str(), O_WRONLY);
    EXPECT_EQ(pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(offset)),
              static_cast<ssize_t>(bytes.size()));
    close(file);
}

/// A folder that goes with what is in it.
struct OtherFolder {
    explicit OtherFolder(const std::string& name) : path(temporary_path(name)) {
        std::filesystem::create_directory(path);
    }
    ~OtherFolder() { std::filesystem::remove_all(path); }
    OtherFolder(const OtherFolder&) = delete;
    OtherFolder& operator=(const OtherFolder&) = delete;

    const std::filesystem::path path;
};

}  // namespace heddle::mpi
