#include "gguf.h"

#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "capi/boundary.hpp"
#include "ggml-impl.h"
#include "gguf/reader.hpp"
#include "gguf/writer.hpp"
#include "heddle/gguf.h"

using namespace heddle;
using namespace heddle::gguf;
using namespace heddle::capi;

namespace {

// ---- loading -----------------------------------------------------------------------------------

using OwnedFile = std::unique_ptr<File>;

Result<OwnedFile> load(Source& source, const gguf_init_params& params) {
    HEDDLE_TRY_ASSIGN(OwnedFile file, read(source));
    if (params.ctx != nullptr) {
        auto context = load_tensors(source, *file, params.no_alloc);
        *params.ctx = context ? context->release() : nullptr;
        if (!context) return std::move(context).error();
    }
    return file;
}

/// What `body` loads; on failure reports it and gives null.
template <class Body>
File* loaded(Body&& body) noexcept {
    auto file = guarded(std::forward<Body>(body));
    if (file) return file->release();
    report(file.error());
    return nullptr;
}

/// Whether `body` succeeded; reports it if not.
template <class Body>
bool succeeded(Body&& body) noexcept {
    const auto result = guarded(std::forward<Body>(body));
    if (!result) report(result.error());
    return result.has_value();
}

// ---- looking up --------------------------------------------------------------------------------

/// `get` of the file, or `otherwise` after failing because there is none.
template <class T, class Get>
T from_file(const File* file, const char* function, T otherwise, Get&& get) noexcept {
    return value_or_fail(
        [&]() -> Result<T> {
            HEDDLE_TRY(require(file, function, "the context"));
            return get(*file);
        },
        otherwise);
}

/// `get` of pair `id`; its failure is told with the key.
template <class T, class Get>
T from_pair(const File* file, std::int64_t id, const char* function, T otherwise,
            Get&& get) noexcept {
    return from_file<T>(file, function, otherwise, [&](const File& f) -> Result<T> {
        if (id < 0 || static_cast<std::uint64_t>(id) >= f.pairs().size()) {
            return invalid(function, ": key ", id, " of ", f.pairs().size());
        }
        const Pair& pair = f.pairs()[static_cast<std::size_t>(id)];
        Result<T> result = get(pair);
        if (result) return result;
        return std::move(result).error().within(text(function, ": key ", id, " '", pair.key, "'"));
    });
}

template <class T>
T number_from(const File* file, std::int64_t id, const char* function) noexcept {
    return from_pair<T>(file, id, function, T{}, [](const Pair& p) { return p.value.as<T>(); });
}

/// The packed numbers of a value.
Result<const void*> numbers_of(const Value& value) {
    if (value.has_strings()) return invalid("strings are not packed");
    return static_cast<const void*>(value.bytes().data());
}

/// Fails unless the value has a string `i`.
Result<> expect_string(const Value& value, std::size_t i) {
    if (!value.has_strings()) return invalid("the elements are no strings");
    if (i >= value.size()) return invalid("string ", i, " of ", value.size());
    return ok();
}

/// `get` of tensor `id`.
template <class T, class Get>
T from_tensor(const File* file, std::int64_t id, const char* function, T otherwise,
              Get&& get) noexcept {
    return from_file<T>(file, function, otherwise, [&](const File& f) -> Result<T> {
        if (id < 0 || static_cast<std::uint64_t>(id) >= f.tensors().size()) {
            return invalid(function, ": tensor ", id, " of ", f.tensors().size());
        }
        return static_cast<T>(get(f.tensors()[static_cast<std::size_t>(id)]));
    });
}

/// A position as C callers know it.
std::int64_t index_or_minus_one(std::optional<std::size_t> position) {
    return position ? static_cast<std::int64_t>(*position) : -1;
}

// ---- changing ----------------------------------------------------------------------------------

/// `change` of the file and the name of one of its tensors.
template <class Change>
void change_tensor(File* file, const char* name, const char* function, Change&& change) noexcept {
    done([&]() -> Result<> {
        HEDDLE_TRY(require(file, function, "the context"));
        HEDDLE_TRY(require(name, function, "the name"));
        auto changed = change(*file);
        if (changed) return changed;
        return std::move(changed).error().within(function);
    });
}

}  // namespace

// ---- loading -----------------------------------------------------------------------------------

gguf_context* gguf_init_empty(void) {
    return made([]() -> Result<OwnedFile> { return std::make_unique<File>(); });
}

gguf_context* gguf_init_from_file(const char* fname, gguf_init_params params) {
    return loaded([&]() -> Result<OwnedFile> {
        HEDDLE_TRY(require(fname, "gguf_init_from_file", "the file name"));
        HEDDLE_TRY_ASSIGN(const auto source, FileSource::open(fname));
        auto file = load(*source, params);
        if (!file) return std::move(file).error().within(fname);
        return file;
    });
}

gguf_context* gguf_init_from_file_ptr(FILE* file, gguf_init_params params) {
    return loaded([&]() -> Result<OwnedFile> {
        HEDDLE_TRY(require(file, "gguf_init_from_file_ptr", "the stream"));
        HEDDLE_TRY_ASSIGN(const auto source, FileSource::over(file));
        return load(*source, params);
    });
}

gguf_context* gguf_init_from_buffer(const void* data, size_t size, gguf_init_params params) {
    return loaded([&]() -> Result<OwnedFile> {
        HEDDLE_TRY(require(data, "gguf_init_from_buffer", "the memory"));
        if (size == 0) return invalid("gguf_init_from_buffer: the memory has 0 bytes");
        MemorySource source({static_cast<const std::byte*>(data), size});
        return load(source, params);
    });
}

gguf_context* gguf_init_from_callback(gguf_reader_callback_t callback, void* userdata,
                                      size_t max_chunk_read, uint64_t max_expected_size,
                                      gguf_init_params params) {
    return loaded([&]() -> Result<OwnedFile> {
        if (callback == nullptr) return invalid("gguf_init_from_callback: the callback is NULL");
        CallbackSource source(callback, userdata, max_chunk_read, max_expected_size);
        return load(source, params);
    });
}

void gguf_free(gguf_context* ctx) { delete ctx; }

// ---- the file ----------------------------------------------------------------------------------

const char* gguf_type_name(gguf_type type) { return heddle::gguf::name_of(type); }
size_t gguf_type_size(gguf_type type) { return heddle::gguf::size_of(type); }

uint32_t gguf_get_version(const gguf_context* ctx) {
    return from_file<uint32_t>(ctx, __func__, 0, [](const File& f) { return f.version(); });
}
size_t gguf_get_alignment(const gguf_context* ctx) {
    return from_file<size_t>(ctx, __func__, 0, [](const File& f) { return f.alignment(); });
}
size_t gguf_get_data_offset(const gguf_context* ctx) {
    return from_file<size_t>(ctx, __func__, 0, [](const File& f) { return f.data_offset(); });
}

// ---- values ------------------------------------------------------------------------------------

int64_t gguf_get_n_kv(const gguf_context* ctx) {
    return from_file<int64_t>(ctx, __func__, 0,
                              [](const File& f) { return static_cast<int64_t>(f.pairs().size()); });
}

int64_t gguf_find_key(const gguf_context* ctx, const char* key) {
    return from_file<int64_t>(ctx, __func__, -1, [&](const File& f) {
        return key == nullptr ? -1 : index_or_minus_one(f.find_key(key));
    });
}

const char* gguf_get_key(const gguf_context* ctx, int64_t key_id) {
    return from_pair<const char*>(ctx, key_id, __func__, nullptr,
                                  [](const Pair& p) { return p.key.c_str(); });
}

gguf_type gguf_get_kv_type(const gguf_context* ctx, int64_t key_id) {
    return from_pair<gguf_type>(ctx, key_id, __func__, GGUF_TYPE_COUNT,
                                [](const Pair& p) { return p.value.type(); });
}

gguf_type gguf_get_arr_type(const gguf_context* ctx, int64_t key_id) {
    return from_pair<gguf_type>(ctx, key_id, __func__, GGUF_TYPE_COUNT,
                                [](const Pair& p) -> Result<gguf_type> {
                                    if (p.value.is_array()) return p.value.element_type();
                                    return invalid("the value is no array");
                                });
}

uint8_t gguf_get_val_u8(const gguf_context* ctx, int64_t key_id) {
    return number_from<uint8_t>(ctx, key_id, __func__);
}
int8_t gguf_get_val_i8(const gguf_context* ctx, int64_t key_id) {
    return number_from<int8_t>(ctx, key_id, __func__);
}
uint16_t gguf_get_val_u16(const gguf_context* ctx, int64_t key_id) {
    return number_from<uint16_t>(ctx, key_id, __func__);
}
int16_t gguf_get_val_i16(const gguf_context* ctx, int64_t key_id) {
    return number_from<int16_t>(ctx, key_id, __func__);
}
uint32_t gguf_get_val_u32(const gguf_context* ctx, int64_t key_id) {
    return number_from<uint32_t>(ctx, key_id, __func__);
}
int32_t gguf_get_val_i32(const gguf_context* ctx, int64_t key_id) {
    return number_from<int32_t>(ctx, key_id, __func__);
}
float gguf_get_val_f32(const gguf_context* ctx, int64_t key_id) {
    return number_from<float>(ctx, key_id, __func__);
}
uint64_t gguf_get_val_u64(const gguf_context* ctx, int64_t key_id) {
    return number_from<uint64_t>(ctx, key_id, __func__);
}
int64_t gguf_get_val_i64(const gguf_context* ctx, int64_t key_id) {
    return number_from<int64_t>(ctx, key_id, __func__);
}
double gguf_get_val_f64(const gguf_context* ctx, int64_t key_id) {
    return number_from<double>(ctx, key_id, __func__);
}
bool gguf_get_val_bool(const gguf_context* ctx, int64_t key_id) {
    return number_from<bool>(ctx, key_id, __func__);
}

const char* gguf_get_val_str(const gguf_context* ctx, int64_t key_id) {
    return from_pair<const char*>(ctx, key_id, __func__, nullptr,
                                  [](const Pair& p) -> Result<const char*> {
                                      HEDDLE_TRY(p.value.expect_one(GGUF_TYPE_STRING));
                                      return p.value.list().c_str(0);
                                  });
}

const void* gguf_get_val_data(const gguf_context* ctx, int64_t key_id) {
    return from_pair<const void*>(ctx, key_id, __func__, nullptr,
                                  [](const Pair& p) -> Result<const void*> {
                                      HEDDLE_TRY(p.value.expect_one(p.value.element_type()));
                                      return numbers_of(p.value);
                                  });
}

size_t gguf_get_arr_n(const gguf_context* ctx, int64_t key_id) {
    return from_pair<size_t>(ctx, key_id, __func__, 0,
                             [](const Pair& p) { return p.value.size(); });
}

const void* gguf_get_arr_data(const gguf_context* ctx, int64_t key_id) {
    return from_pair<const void*>(ctx, key_id, __func__, nullptr,
                                  [](const Pair& p) { return numbers_of(p.value); });
}

const char* gguf_get_arr_str(const gguf_context* ctx, int64_t key_id, size_t i) {
    return from_pair<const char*>(ctx, key_id, __func__, nullptr,
                                  [&](const Pair& p) -> Result<const char*> {
                                      HEDDLE_TRY(expect_string(p.value, i));
                                      return p.value.list().c_str(i);
                                  });
}

size_t heddle_gguf_get_str_size(const gguf_context* ctx, int64_t key_id, size_t i) {
    return from_pair<size_t>(ctx, key_id, __func__, 0, [&](const Pair& p) -> Result<size_t> {
        HEDDLE_TRY(expect_string(p.value, i));
        return p.value.list()[i].size();
    });
}

int64_t gguf_remove_key(gguf_context* ctx, const char* key) {
    return value_or_fail(
        [&]() -> Result<int64_t> {
            HEDDLE_TRY(require(ctx, "gguf_remove_key", "the context"));
            HEDDLE_TRY(require(key, "gguf_remove_key", "the key"));
            HEDDLE_TRY_ASSIGN(const auto position, ctx->remove(key));
            return index_or_minus_one(position);
        },
        int64_t{-1});
}

// ---- tensors -----------------------------------------------------------------------------------

int64_t gguf_get_n_tensors(const gguf_context* ctx) {
    return from_file<int64_t>(
        ctx, __func__, 0, [](const File& f) { return static_cast<int64_t>(f.tensors().size()); });
}

int64_t gguf_find_tensor(const gguf_context* ctx, const char* name) {
    return from_file<int64_t>(ctx, __func__, -1, [&](const File& f) {
        return name == nullptr ? -1 : index_or_minus_one(f.find_tensor(name));
    });
}

size_t gguf_get_tensor_offset(const gguf_context* ctx, int64_t tensor_id) {
    return from_tensor<size_t>(ctx, tensor_id, __func__, 0, [](auto& e) { return e.offset; });
}

const char* gguf_get_tensor_name(const gguf_context* ctx, int64_t tensor_id) {
    return from_tensor<const char*>(ctx, tensor_id, __func__, nullptr,
                                    [](auto& e) { return e.tensor.name; });
}

const int64_t* gguf_get_tensor_ne(const gguf_context* ctx, int64_t tensor_id) {
    return from_tensor<const int64_t*>(ctx, tensor_id, __func__, nullptr,
                                       [](auto& e) { return e.tensor.ne; });
}

ggml_type gguf_get_tensor_type(const gguf_context* ctx, int64_t tensor_id) {
    return from_tensor<ggml_type>(ctx, tensor_id, __func__, GGML_TYPE_COUNT,
                                  [](auto& e) { return e.tensor.type; });
}

size_t gguf_get_tensor_size(const gguf_context* ctx, int64_t tensor_id) {
    return from_tensor<size_t>(ctx, tensor_id, __func__, 0,
                               [](auto& e) { return byte_size(e.tensor); });
}

void gguf_add_tensor(gguf_context* ctx, const ggml_tensor* tensor) {
    done([&]() -> Result<> {
        HEDDLE_TRY(require(ctx, "gguf_add_tensor", "the context"));
        HEDDLE_TRY(require(tensor, "gguf_add_tensor", "the tensor"));
        if (auto added = ctx->add_tensor(*tensor); !added) {
            return std::move(added).error().within("gguf_add_tensor");
        }
        return ok();
    });
}

void gguf_set_tensor_type(gguf_context* ctx, const char* name, ggml_type type) {
    change_tensor(ctx, name, __func__, [&](File& f) { return f.set_tensor_type(name, type); });
}

void gguf_set_tensor_data(gguf_context* ctx, const char* name, const void* data) {
    change_tensor(ctx, name, __func__, [&](File& f) { return f.set_tensor_data(name, data); });
}

// ---- writing -----------------------------------------------------------------------------------

bool gguf_write_to_file_ptr(const gguf_context* ctx, FILE* file, bool only_meta) {
    return succeeded([&]() -> Result<> {
        HEDDLE_TRY(require(ctx, "gguf_write_to_file_ptr", "the context"));
        HEDDLE_TRY(require(file, "gguf_write_to_file_ptr", "the stream"));
        return write(*ctx, only_meta, file);
    });
}

bool gguf_write_to_file(const gguf_context* ctx, const char* fname, bool only_meta) {
    return succeeded([&]() -> Result<> {
        HEDDLE_TRY(require(ctx, "gguf_write_to_file", "the context"));
        HEDDLE_TRY(require(fname, "gguf_write_to_file", "the file name"));
        return write(*ctx, only_meta, std::string(fname));
    });
}

void gguf_write_to_buf(const gguf_context* ctx, std::vector<int8_t>& buf, bool only_meta) {
    done([&]() -> Result<> {
        HEDDLE_TRY(require(ctx, "gguf_write_to_buf", "the context"));
        return write(*ctx, only_meta, [&](std::span<const std::byte> bytes) {
            const auto* begin = reinterpret_cast<const int8_t*>(bytes.data());
            buf.insert(buf.end(), begin, begin + bytes.size());
            return ok();
        });
    });
}

size_t gguf_get_meta_size(const gguf_context* ctx) {
    return from_file<size_t>(ctx, __func__, 0, [](const File& f) { return metadata_size(f); });
}

void gguf_get_meta_data(const gguf_context* ctx, void* data) {
    done([&]() -> Result<> {
        HEDDLE_TRY(require(ctx, "gguf_get_meta_data", "the context"));
        HEDDLE_TRY(require(data, "gguf_get_meta_data", "the memory"));
        write_metadata(*ctx, static_cast<std::byte*>(data));
        return ok();
    });
}
