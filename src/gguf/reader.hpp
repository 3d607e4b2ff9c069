#pragma once

#include <memory>

#include "core/context.hpp"
#include "core/error.hpp"
#include "gguf/model_file.hpp"
#include "gguf/source.hpp"

namespace heddle::gguf {

/// Reads everything in front of the data section.
///
/// Nothing the source says is believed: every number is checked against its limit and against the
/// bytes that are left before memory is asked for. A failure names the byte and the field:
/// "gguf: at byte 137: tensor 3 'blk.0.attn_q': n_dims 5, at most 4".
Result<std::unique_ptr<File>> read(Source& source);

/// A new context with the tensors of `file` in order, which has just been read from `source`.
///
/// With `no_alloc` they have no data. Otherwise the first tensor is the whole data section as
/// bytes, and the others lie in it.
Result<OwnedContext> load_tensors(Source& source, const File& file, bool no_alloc);

}  // namespace heddle::gguf
