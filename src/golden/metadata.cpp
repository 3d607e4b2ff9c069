#include "golden/metadata.hpp"

#include "heddle/heddle.h"

namespace heddle::golden {
namespace {

template <class T>
constexpr gguf_type kFileType = GGUF_TYPE_COUNT;
template <>
constexpr gguf_type kFileType<std::int32_t> = GGUF_TYPE_INT32;
template <>
constexpr gguf_type kFileType<std::int64_t> = GGUF_TYPE_INT64;
template <>
constexpr gguf_type kFileType<std::uint64_t> = GGUF_TYPE_UINT64;

}  // namespace

Result<Metadata> Metadata::open(const std::string& path) {
    heddle_clear_error();
    Context* data = nullptr;
    Metadata metadata;
    metadata.file_.reset(gguf_init_from_file(path.c_str(), {.no_alloc = false, .ctx = &data}));
    metadata.data_.reset(data);
    if (metadata.file_ == nullptr || data == nullptr) {
        return failure(Errc::io, path, " cannot be read: ", heddle_last_error());
    }
    return metadata;
}

Result<std::int64_t> Metadata::find(const std::string& key, gguf_type type) const {
    const std::int64_t id = find(key);
    if (id < 0) return failure(Errc::corrupt, "key '", key, "' is missing");
    const gguf_type actual = gguf_get_kv_type(file_.get(), id);
    if (actual == type) return id;
    return failure(Errc::corrupt, "key '", key, "' is a ", gguf_type_name(actual), ", not a ",
                   gguf_type_name(type));
}

Result<std::int64_t> Metadata::find_array(const std::string& key, gguf_type type) const {
    HEDDLE_TRY_ASSIGN(const std::int64_t id, find(key, GGUF_TYPE_ARRAY));
    const gguf_type actual = gguf_get_arr_type(file_.get(), id);
    if (actual == type) return id;
    return failure(Errc::corrupt, "key '", key, "' is an array of ", gguf_type_name(actual),
                   ", not of ", gguf_type_name(type));
}

Result<std::string> Metadata::string(const std::string& key) const {
    HEDDLE_TRY_ASSIGN(const std::int64_t id, find(key, GGUF_TYPE_STRING));
    return std::string(gguf_get_val_str(file_.get(), id));
}

Result<std::vector<std::string>> Metadata::strings(const std::string& key) const {
    HEDDLE_TRY_ASSIGN(const std::int64_t id, find_array(key, GGUF_TYPE_STRING));
    std::vector<std::string> result(gguf_get_arr_n(file_.get(), id));
    for (std::size_t i = 0; i < result.size(); ++i)
        result[i] = gguf_get_arr_str(file_.get(), id, i);
    return result;
}

Result<std::uint32_t> Metadata::u32(const std::string& key) const {
    HEDDLE_TRY_ASSIGN(const std::int64_t id, find(key, GGUF_TYPE_UINT32));
    return gguf_get_val_u32(file_.get(), id);
}

Result<std::uint64_t> Metadata::u64(const std::string& key) const {
    HEDDLE_TRY_ASSIGN(const std::int64_t id, find(key, GGUF_TYPE_UINT64));
    return gguf_get_val_u64(file_.get(), id);
}

Result<std::int32_t> Metadata::i32(const std::string& key) const {
    HEDDLE_TRY_ASSIGN(const std::int64_t id, find(key, GGUF_TYPE_INT32));
    return gguf_get_val_i32(file_.get(), id);
}

Result<float> Metadata::f32(const std::string& key) const {
    HEDDLE_TRY_ASSIGN(const std::int64_t id, find(key, GGUF_TYPE_FLOAT32));
    return gguf_get_val_f32(file_.get(), id);
}

template <class T>
Result<std::vector<T>> Metadata::array(const std::string& key) const {
    HEDDLE_TRY_ASSIGN(const std::int64_t id, find_array(key, kFileType<T>));
    const std::size_t n = gguf_get_arr_n(file_.get(), id);
    if (n == 0) return std::vector<T>();
    const auto* values = static_cast<const T*>(gguf_get_arr_data(file_.get(), id));
    return std::vector<T>(values, values + n);
}

template Result<std::vector<std::int32_t>> Metadata::array(const std::string&) const;
template Result<std::vector<std::int64_t>> Metadata::array(const std::string&) const;
template Result<std::vector<std::uint64_t>> Metadata::array(const std::string&) const;

}  // namespace heddle::golden
