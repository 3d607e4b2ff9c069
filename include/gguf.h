/// GGUF model files: named values ("key-value pairs") and tensors in one file.
///
/// Layout: header, values, list of tensors, then the data of the tensors, each aligned. Reading
/// checks everything; a file that is broken gives NULL and a sentence in heddle_last_error().
#pragma once

#include "ggml.h"

#define GGUF_MAGIC "GGUF"  ///< First four bytes of a file.
#define GGUF_VERSION 3     ///< Version written; 2 and 3 are read.

#define GGUF_KEY_GENERAL_ALIGNMENT "general.alignment"  ///< Key (u32) of the data's alignment.
#define GGUF_DEFAULT_ALIGNMENT 32                       ///< Alignment in bytes without that key.

#ifdef __cplusplus
extern "C" {
#endif

/// Type of a value. The numbers are those stored in files.
enum gguf_type GGML_ENUM_INT {
    GGUF_TYPE_UINT8 = 0,     ///< Unsigned 8-bit integer.
    GGUF_TYPE_INT8 = 1,      ///< Signed 8-bit integer.
    GGUF_TYPE_UINT16 = 2,    ///< Unsigned 16-bit integer.
    GGUF_TYPE_INT16 = 3,     ///< Signed 16-bit integer.
    GGUF_TYPE_UINT32 = 4,    ///< Unsigned 32-bit integer.
    GGUF_TYPE_INT32 = 5,     ///< Signed 32-bit integer.
    GGUF_TYPE_FLOAT32 = 6,   ///< 32-bit float.
    GGUF_TYPE_BOOL = 7,      ///< Truth value, one byte.
    GGUF_TYPE_STRING = 8,    ///< Text.
    GGUF_TYPE_ARRAY = 9,     ///< Values of one other type.
    GGUF_TYPE_UINT64 = 10,   ///< Unsigned 64-bit integer.
    GGUF_TYPE_INT64 = 11,    ///< Signed 64-bit integer.
    GGUF_TYPE_FLOAT64 = 12,  ///< 64-bit float.
    GGUF_TYPE_COUNT = 13,    ///< Number of types.
};

struct gguf_context;  ///< What a file holds, without tensor data.

/// Name of a type, such as "u32"; NULL for no type.
GGML_API const char* gguf_type_name(enum gguf_type type);

// ------------------------------------------------------------------------------------------------
// Reading

/// How to read a file.
struct gguf_init_params {
    bool no_alloc;  ///< Whether the tensors in `ctx` get no data.
    struct ggml_context**
        ctx;  ///< Receives a new context with the tensors, the caller's; may be NULL.
};

/// Gives `len` bytes (more than 0) from `offset` on to `output`; returns how many there were.
typedef size_t (*gguf_reader_callback_t)(void* userdata, void* output, uint64_t offset, size_t len);

/// A context without values and tensors, to be written. The caller owns it.
GGML_API struct gguf_context* gguf_init_empty(void);

/// Reads a file (UTF-8 path). The caller owns the result; NULL if it cannot be read.
GGML_API struct gguf_context* gguf_init_from_file(const char* fname,
                                                  struct gguf_init_params params);

/// Reads from the current position of an open file, which stays open.
GGML_API struct gguf_context* gguf_init_from_file_ptr(FILE* file, struct gguf_init_params params);

/// Reads `size` bytes in memory, which are not needed afterwards.
GGML_API struct gguf_context* gguf_init_from_buffer(const void* data, size_t size,
                                                    struct gguf_init_params params);

/// Reads through a callback, at most `max_chunk_read` bytes at a time (0: any) and
/// `max_expected_size` in all.
GGML_API struct gguf_context* gguf_init_from_callback(gguf_reader_callback_t callback,
                                                      void* userdata, size_t max_chunk_read,
                                                      uint64_t max_expected_size,
                                                      struct gguf_init_params params);

/// Releases a context. NULL is fine. Tensors read along with it stay in their own context.
GGML_API void gguf_free(struct gguf_context* ctx);

/// Version of the file.
GGML_API uint32_t gguf_get_version(const struct gguf_context* ctx);

/// Alignment of tensor data in bytes.
GGML_API size_t gguf_get_alignment(const struct gguf_context* ctx);

/// Where tensor data begins, in bytes from the beginning of the file.
GGML_API size_t gguf_get_data_offset(const struct gguf_context* ctx);

// ------------------------------------------------------------------------------------------------
// Values
//
// They are numbered from 0. A number out of range, or a type that is not the value's, is an error.
// Texts and arrays belong to the context and live until it is changed or released.

/// Number of values.
GGML_API int64_t gguf_get_n_kv(const struct gguf_context* ctx);

/// Number of the value with this key, -1 if there is none.
GGML_API int64_t gguf_find_key(const struct gguf_context* ctx, const char* key);

/// Its key.
GGML_API const char* gguf_get_key(const struct gguf_context* ctx, int64_t key_id);

/// Its type.
GGML_API enum gguf_type gguf_get_kv_type(const struct gguf_context* ctx, int64_t key_id);

/// The type of an array's elements.
GGML_API enum gguf_type gguf_get_arr_type(const struct gguf_context* ctx, int64_t key_id);

/// The value, an unsigned 8-bit integer.
GGML_API uint8_t gguf_get_val_u8(const struct gguf_context* ctx, int64_t key_id);

/// The value, a signed 8-bit integer.
GGML_API int8_t gguf_get_val_i8(const struct gguf_context* ctx, int64_t key_id);

/// The value, an unsigned 16-bit integer.
GGML_API uint16_t gguf_get_val_u16(const struct gguf_context* ctx, int64_t key_id);

/// The value, a signed 16-bit integer.
GGML_API int16_t gguf_get_val_i16(const struct gguf_context* ctx, int64_t key_id);

/// The value, an unsigned 32-bit integer.
GGML_API uint32_t gguf_get_val_u32(const struct gguf_context* ctx, int64_t key_id);

/// The value, a signed 32-bit integer.
GGML_API int32_t gguf_get_val_i32(const struct gguf_context* ctx, int64_t key_id);

/// The value, a 32-bit float.
GGML_API float gguf_get_val_f32(const struct gguf_context* ctx, int64_t key_id);

/// The value, an unsigned 64-bit integer.
GGML_API uint64_t gguf_get_val_u64(const struct gguf_context* ctx, int64_t key_id);

/// The value, a signed 64-bit integer.
GGML_API int64_t gguf_get_val_i64(const struct gguf_context* ctx, int64_t key_id);

/// The value, a 64-bit float.
GGML_API double gguf_get_val_f64(const struct gguf_context* ctx, int64_t key_id);

/// The value, a truth value.
GGML_API bool gguf_get_val_bool(const struct gguf_context* ctx, int64_t key_id);

/// The value, a text.
GGML_API const char* gguf_get_val_str(const struct gguf_context* ctx, int64_t key_id);

/// The value's bytes; not for texts and arrays.
GGML_API const void* gguf_get_val_data(const struct gguf_context* ctx, int64_t key_id);

/// Number of elements of an array.
GGML_API size_t gguf_get_arr_n(const struct gguf_context* ctx, int64_t key_id);

/// Its elements, packed; not for texts.
GGML_API const void* gguf_get_arr_data(const struct gguf_context* ctx, int64_t key_id);

/// Text number `i` of an array of texts.
GGML_API const char* gguf_get_arr_str(const struct gguf_context* ctx, int64_t key_id, size_t i);

// ------------------------------------------------------------------------------------------------
// Tensors
//
// They are numbered from 0. A number out of range is an error.

/// Number of tensors.
GGML_API int64_t gguf_get_n_tensors(const struct gguf_context* ctx);

/// Number of the tensor with this name, -1 if there is none.
GGML_API int64_t gguf_find_tensor(const struct gguf_context* ctx, const char* name);

/// Where its data begins, in bytes from the beginning of all tensor data.
GGML_API size_t gguf_get_tensor_offset(const struct gguf_context* ctx, int64_t tensor_id);

/// Its name.
GGML_API const char* gguf_get_tensor_name(const struct gguf_context* ctx, int64_t tensor_id);

/// Its four extents.
GGML_API const int64_t* gguf_get_tensor_ne(const struct gguf_context* ctx, int64_t tensor_id);

/// Its type.
GGML_API enum ggml_type gguf_get_tensor_type(const struct gguf_context* ctx, int64_t tensor_id);

/// Bytes of its data.
GGML_API size_t gguf_get_tensor_size(const struct gguf_context* ctx, int64_t tensor_id);

// ------------------------------------------------------------------------------------------------
// Changing
//
// Setting a key that is there already removes the old value and appends the new one. Everything
// given is copied, tensor data excepted.

/// Removes a value; returns the number it had, -1 if there was none. Later ones move up.
GGML_API int64_t gguf_remove_key(struct gguf_context* ctx, const char* key);

/// Sets an unsigned 8-bit integer.
GGML_API void gguf_set_val_u8(struct gguf_context* ctx, const char* key, uint8_t val);

/// Sets a signed 8-bit integer.
GGML_API void gguf_set_val_i8(struct gguf_context* ctx, const char* key, int8_t val);

/// Sets an unsigned 16-bit integer.
GGML_API void gguf_set_val_u16(struct gguf_context* ctx, const char* key, uint16_t val);

/// Sets a signed 16-bit integer.
GGML_API void gguf_set_val_i16(struct gguf_context* ctx, const char* key, int16_t val);

/// Sets an unsigned 32-bit integer.
GGML_API void gguf_set_val_u32(struct gguf_context* ctx, const char* key, uint32_t val);

/// Sets a signed 32-bit integer.
GGML_API void gguf_set_val_i32(struct gguf_context* ctx, const char* key, int32_t val);

/// Sets a 32-bit float.
GGML_API void gguf_set_val_f32(struct gguf_context* ctx, const char* key, float val);

/// Sets an unsigned 64-bit integer.
GGML_API void gguf_set_val_u64(struct gguf_context* ctx, const char* key, uint64_t val);

/// Sets a signed 64-bit integer.
GGML_API void gguf_set_val_i64(struct gguf_context* ctx, const char* key, int64_t val);

/// Sets a 64-bit float.
GGML_API void gguf_set_val_f64(struct gguf_context* ctx, const char* key, double val);

/// Sets a truth value.
GGML_API void gguf_set_val_bool(struct gguf_context* ctx, const char* key, bool val);

/// Sets a text.
GGML_API void gguf_set_val_str(struct gguf_context* ctx, const char* key, const char* val);

/// Sets an array of `n` numbers of `type`; not for texts.
GGML_API void gguf_set_arr_data(struct gguf_context* ctx, const char* key, enum gguf_type type,
                                const void* data, size_t n);

/// Sets an array of `n` texts.
GGML_API void gguf_set_arr_str(struct gguf_context* ctx, const char* key, const char** data,
                               size_t n);

/// Sets all values of `src`.
GGML_API void gguf_set_kv(struct gguf_context* ctx, const struct gguf_context* src);

/// Appends a tensor, whose name must be new. Its data is read when the file is written.
GGML_API void gguf_add_tensor(struct gguf_context* ctx, const struct ggml_tensor* tensor);

/// Changes the type of a tensor; later tensors move.
GGML_API void gguf_set_tensor_type(struct gguf_context* ctx, const char* name, enum ggml_type type);

/// Sets where a tensor's data is; it must stay there until the file has been written.
GGML_API void gguf_set_tensor_data(struct gguf_context* ctx, const char* name, const void* data);

// ------------------------------------------------------------------------------------------------
// Writing

/// Writes a file (UTF-8 path): everything, or with `only_meta` all but tensor data. A file of that
/// name is replaced when the new one is complete, and untouched if that fails: then false.
GGML_API bool gguf_write_to_file(const struct gguf_context* ctx, const char* fname, bool only_meta);

/// The same at the current position of an open file, which stays open.
GGML_API bool gguf_write_to_file_ptr(const struct gguf_context* ctx, FILE* file, bool only_meta);

/// Bytes of all but tensor data, padding behind it included.
GGML_API size_t gguf_get_meta_size(const struct gguf_context* ctx);

/// Writes these bytes to `data`.
GGML_API void gguf_get_meta_data(const struct gguf_context* ctx, void* data);

#ifdef __cplusplus
}
#endif
