/// GGUF files, beyond `gguf.h`.
#pragma once

#include "../gguf.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Bytes of string `i` of an array of strings, or of the one string (`i` = 0) of a value.
///
/// Strings in files may contain NULs, where gguf_get_val_str() and gguf_get_arr_str() seem to end.
/// 0, after failing, if there is no such string.
GGML_API size_t heddle_gguf_get_str_size(const struct gguf_context* ctx, int64_t key_id, size_t i);

#ifdef __cplusplus
}
#endif
