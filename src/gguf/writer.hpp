#pragma once

#include <cstddef>
#include <cstdio>
#include <functional>
#include <span>
#include <string>

#include "core/error.hpp"
#include "gguf/model_file.hpp"

namespace heddle::gguf {

/// Bytes in front of the data section, its padding included.
std::size_t metadata_size(const File& file);

/// Writes exactly `metadata_size` bytes to `out`.
void write_metadata(const File& file, std::byte* out);

/// Takes the next bytes of a file.
using Sink = std::function<Result<>(std::span<const std::byte>)>;

/// Writes the file from its first byte on, with the data of every tensor unless `only_metadata`.
///
/// Data are taken from the tensor's buffer where it has one, else from host memory. Fails for a
/// tensor without data or whose elements do not follow each other, before anything is written.
Result<> write(const File& file, bool only_metadata, const Sink& sink);

/// The same into a stream, from its current position on.
Result<> write(const File& file, bool only_metadata, std::FILE* stream);

/// The same into a new file at `path`, which replaces what was there.
Result<> write(const File& file, bool only_metadata, const std::string& path);

}  // namespace heddle::gguf
