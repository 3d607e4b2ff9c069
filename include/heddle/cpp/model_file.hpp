/// GGUF files, mapped into memory. Part of `heddle/heddle.hpp`.
#pragma once

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "../gguf.h"
#include "context.hpp"

#if defined(__unix__) || defined(__APPLE__)
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#else
#include <fstream>
#endif

namespace heddle::api {

/// The bytes of a file, mapped where the system can, read where it cannot. Whoever shortens the
/// file meanwhile makes reading the missing part undefined, as with every mapping.
class FileBytes {
public:
    static Result<FileBytes> open(const std::string& path) {
        FileBytes bytes;
#if defined(__unix__) || defined(__APPLE__)
        // A FIFO must not make the caller wait for its writer; files take no notice.
        const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        struct stat status {};
        if (file < 0 || ::fstat(file, &status) != 0) {
            const std::string reason = std::generic_category().message(errno);
            if (file >= 0) ::close(file);
            return failure(Errc::not_found, path, ": cannot be opened: ", reason);
        }
        bytes.size_ = static_cast<std::size_t>(status.st_size);
        if (S_ISREG(status.st_mode) && bytes.size_ > 0) {
            // Written pages would be private copies; nothing writes. No memory is reserved for
            // them, so that files larger than it can be mapped.
            void* data = ::mmap(nullptr, bytes.size_, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_NORESERVE, file, 0);
            if (data != MAP_FAILED) bytes.data_ = static_cast<std::byte*>(data);
        }
        ::close(file);
        if (!S_ISREG(status.st_mode)) return failure(Errc::io, path, ": is not a file");
        if (bytes.size_ == 0) return failure(Errc::corrupt, path, ": is empty");
        if (bytes.data_ == nullptr) return failure(Errc::io, path, ": cannot be mapped");
#else
        std::ifstream in(path, std::ios::binary | std::ios::ate);
        if (!in) return failure(Errc::not_found, path, ": cannot be opened");
        bytes.size_ = static_cast<std::size_t>(in.tellg());
        bytes.read_.resize(bytes.size_ + kAlignment);
        bytes.data_ =
            bytes.read_.data() +
            (kAlignment - reinterpret_cast<std::uintptr_t>(bytes.read_.data()) % kAlignment);
        in.seekg(0).read(reinterpret_cast<char*>(bytes.data_),
                         static_cast<std::streamsize>(bytes.size_));
        if (!in) return failure(Errc::io, path, ": cannot be read");
#endif
        return bytes;
    }

    FileBytes(FileBytes&& other) noexcept { swap(other); }
    FileBytes& operator=(FileBytes&& other) noexcept {
        swap(other);
        return *this;
    }
    ~FileBytes() {
#if defined(__unix__) || defined(__APPLE__)
        if (data_ != nullptr) ::munmap(data_, size_);
#endif
    }

    std::byte* data() const { return data_; }
    std::size_t size() const { return size_; }

private:
    static constexpr std::size_t kAlignment = 64;

    FileBytes() = default;
    void swap(FileBytes& other) {
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
        std::swap(read_, other.read_);
    }

    std::byte* data_ = nullptr;
    std::size_t size_ = 0;
    std::vector<std::byte> read_;  ///< where nothing can be mapped
};

/// A GGUF file: keys and values, and tensors whose bytes are mapped.
class ModelFile {
public:
    /// Opens the file once and maps it once; what it says is read from the mapping.
    static Result<ModelFile> open(const std::string& path) {
        HEDDLE_TRY_ASSIGN(FileBytes bytes, FileBytes::open(path));
        ggml_context* tensors = nullptr;
        gguf_context* file = detail::call([&] {
            return gguf_init_from_buffer(bytes.data(), bytes.size(),
                                         {.no_alloc = true, .ctx = &tensors});
        });
        if (file == nullptr) {
            return detail::last_failure(Errc::corrupt, "not a GGUF file").within(path);
        }
        ModelFile model(path, std::move(bytes), file, tensors);
        HEDDLE_TRY(model.check_extent());
        return model;
    }

    const std::string& path() const { return path_; }
    std::int64_t tensor_count() const { return gguf_get_n_tensors(file_.get()); }
    ggml_context* tensors() const { return tensors_.get(); }  ///< descriptions, without memory
    const ggml_tensor* find(const std::string& name) const {
        return ggml_get_tensor(tensors_.get(), name.c_str());
    }

    /// The bytes of a tensor of this file.
    std::byte* data_of(const ggml_tensor& tensor) const {
        const std::int64_t id = gguf_find_tensor(file_.get(), ggml_get_name(&tensor));
        return id < 0 ? nullptr
                      : bytes_.data() + gguf_get_data_offset(file_.get()) +
                            gguf_get_tensor_offset(file_.get(), id);
    }
    const FileBytes& bytes() const { return bytes_; }

    bool has(const std::string& key) const { return gguf_find_key(file_.get(), key.c_str()) >= 0; }
    Result<std::string> text(const std::string& key) const;  ///< with its NULs, if it has some
    Result<std::int64_t> integer(const std::string& key) const;
    Result<double> real(const std::string& key) const;
    Result<bool> flag(const std::string& key) const;
    Result<std::vector<std::string>> texts(const std::string& key) const;
    Result<std::vector<float>> reals(const std::string& key) const;
    Result<std::vector<std::int32_t>> integers(const std::string& key) const;

    gguf_context* c() const { return file_.get(); }

private:
    ModelFile(std::string path, FileBytes bytes, gguf_context* file, ggml_context* tensors)
        : path_(std::move(path)), bytes_(std::move(bytes)), file_(file), tensors_(tensors) {}

    Result<> check_extent() const;
    Result<std::int64_t> key_of(const std::string& key) const;
    Result<std::int64_t> array_of(const std::string& key, gguf_type type) const;
    Error wrong_type(const std::string& key, std::int64_t id, const char* wanted) const;

    std::string path_;
    FileBytes bytes_;
    gguf_context_ptr file_;
    ggml_context_ptr tensors_;
};

// ---- values ------------------------------------------------------------------------------------

inline Result<> ModelFile::check_extent() const {
    for (std::int64_t i = 0; i < tensor_count(); ++i) {
        const std::size_t begin = gguf_get_data_offset(c()) + gguf_get_tensor_offset(c(), i);
        const std::size_t size = gguf_get_tensor_size(c(), i);
        if (begin > bytes_.size() || size > bytes_.size() - begin) {
            return failure(Errc::corrupt, path_, ": tensor '", gguf_get_tensor_name(c(), i),
                           "' ends at byte ", begin + size, ", the file at ", bytes_.size());
        }
    }
    return ok();
}

inline Result<std::int64_t> ModelFile::key_of(const std::string& key) const {
    const std::int64_t id = gguf_find_key(c(), key.c_str());
    if (id < 0) return failure(Errc::not_found, path_, ": has no '", key, "'");
    return id;
}

inline Error ModelFile::wrong_type(const std::string& key, std::int64_t id,
                                   const char* wanted) const {
    return failure(Errc::corrupt, path_, ": '", key, "' is of type ",
                   gguf_type_name(gguf_get_kv_type(c(), id)), ", not ", wanted);
}

inline Result<std::string> ModelFile::text(const std::string& key) const {
    HEDDLE_TRY_ASSIGN(const std::int64_t id, key_of(key));
    if (gguf_get_kv_type(c(), id) != GGUF_TYPE_STRING) return wrong_type(key, id, "text");
    return std::string(gguf_get_val_str(c(), id), heddle_gguf_get_str_size(c(), id, 0));
}

inline Result<std::int64_t> ModelFile::integer(const std::string& key) const {
    HEDDLE_TRY_ASSIGN(const std::int64_t id, key_of(key));
    switch (gguf_get_kv_type(c(), id)) {
        case GGUF_TYPE_UINT8:
            return gguf_get_val_u8(c(), id);
        case GGUF_TYPE_INT8:
            return gguf_get_val_i8(c(), id);
        case GGUF_TYPE_UINT16:
            return gguf_get_val_u16(c(), id);
        case GGUF_TYPE_INT16:
            return gguf_get_val_i16(c(), id);
        case GGUF_TYPE_UINT32:
            return gguf_get_val_u32(c(), id);
        case GGUF_TYPE_INT32:
            return gguf_get_val_i32(c(), id);
        case GGUF_TYPE_UINT64: {
            const std::uint64_t value = gguf_get_val_u64(c(), id);
            if (std::in_range<std::int64_t>(value)) return static_cast<std::int64_t>(value);
            return failure(Errc::corrupt, path_, ": '", key, "' is ", value,
                           ", which no size can be");
        }
        case GGUF_TYPE_INT64:
            return gguf_get_val_i64(c(), id);
        default:
            return wrong_type(key, id, "a whole number");
    }
}

inline Result<double> ModelFile::real(const std::string& key) const {
    HEDDLE_TRY_ASSIGN(const std::int64_t id, key_of(key));
    if (gguf_get_kv_type(c(), id) == GGUF_TYPE_FLOAT32) return gguf_get_val_f32(c(), id);
    if (gguf_get_kv_type(c(), id) == GGUF_TYPE_FLOAT64) return gguf_get_val_f64(c(), id);
    return wrong_type(key, id, "f32 or f64");
}

inline Result<bool> ModelFile::flag(const std::string& key) const {
    HEDDLE_TRY_ASSIGN(const std::int64_t id, key_of(key));
    if (gguf_get_kv_type(c(), id) != GGUF_TYPE_BOOL) return wrong_type(key, id, "true or false");
    return gguf_get_val_bool(c(), id);
}

inline Result<std::int64_t> ModelFile::array_of(const std::string& key, gguf_type type) const {
    HEDDLE_TRY_ASSIGN(const std::int64_t id, key_of(key));
    if (gguf_get_kv_type(c(), id) != GGUF_TYPE_ARRAY || gguf_get_arr_type(c(), id) != type) {
        return wrong_type(key, id, heddle::text("a list of ", gguf_type_name(type)).c_str());
    }
    return id;
}

inline Result<std::vector<std::string>> ModelFile::texts(const std::string& key) const {
    HEDDLE_TRY_ASSIGN(const std::int64_t id, array_of(key, GGUF_TYPE_STRING));
    std::vector<std::string> values(gguf_get_arr_n(c(), id));
    for (std::size_t i = 0; i < values.size(); ++i) {
        values[i].assign(gguf_get_arr_str(c(), id, i), heddle_gguf_get_str_size(c(), id, i));
    }
    return values;
}

inline Result<std::vector<float>> ModelFile::reals(const std::string& key) const {
    HEDDLE_TRY_ASSIGN(const std::int64_t id, array_of(key, GGUF_TYPE_FLOAT32));
    const auto* data = static_cast<const float*>(gguf_get_arr_data(c(), id));
    return std::vector<float>(data, data + gguf_get_arr_n(c(), id));
}

inline Result<std::vector<std::int32_t>> ModelFile::integers(const std::string& key) const {
    HEDDLE_TRY_ASSIGN(const std::int64_t id, array_of(key, GGUF_TYPE_INT32));
    const auto* data = static_cast<const std::int32_t*>(gguf_get_arr_data(c(), id));
    return std::vector<std::int32_t>(data, data + gguf_get_arr_n(c(), id));
}

}  // namespace heddle::api
