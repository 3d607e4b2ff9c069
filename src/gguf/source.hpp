#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "gguf.h"

namespace heddle::gguf {

/// Bytes to read a model file from, front to back.
///
/// Small reads are served from a window, so that a source is asked for large pieces. It is asked
/// for no byte past what the reader has promised to need: a callback may sit in front of a network.
class Source {
public:
    virtual ~Source() = default;
    Source(const Source&) = delete;
    Source& operator=(const Source&) = delete;

    /// Absolute, in the source: an embedded file does not begin at 0.
    std::uint64_t position() const { return position_; }

    /// Bytes left, at most. Exactly that many where `is_exact`, unless reading fails.
    std::uint64_t remaining() const { return end_ - position_; }
    bool is_exact() const { return is_exact_; }

    /// Fills `out`; false if the source ends before, and then nothing more can be read from it.
    bool read(void* out, std::size_t size);

    /// Goes on at `position`, which is not before this one and not past the end.
    void skip_to(std::uint64_t position) { position_ = position; }

    /// At least `bytes` more will be read if the file is sound; they may be read ahead.
    void promise(std::uint64_t bytes);

protected:
    /// Bytes `begin` to `end` of something. If not `is_exact`, it may end earlier than that.
    Source(std::uint64_t begin, std::uint64_t end, bool is_exact)
        : position_(begin), end_(end), promised_end_(begin), is_exact_(is_exact) {}

    /// Everything is in memory already: no fetching.
    void set_window(std::span<const std::byte> bytes);

private:
    /// Bytes got; fewer than `size`, which is not 0, at the end of the source or when reading
    /// failed.
    virtual std::size_t fetch(std::uint64_t offset, std::byte* out, std::size_t size) = 0;

    bool refill(std::size_t needed);

    std::uint64_t position_;
    std::uint64_t end_;
    std::uint64_t promised_end_;
    bool is_exact_;
    std::span<const std::byte> window_;
    std::uint64_t window_begin_ = 0;
    std::vector<std::byte> storage_;  // of the window, where it is our own
};

class MemorySource final : public Source {
public:
    /// `bytes` must stay while the source is in use.
    explicit MemorySource(std::span<const std::byte> bytes) : Source(0, bytes.size(), true) {
        set_window(bytes);
    }

private:
    std::size_t fetch(std::uint64_t, std::byte*, std::size_t) override { return 0; }
};

class FileSource final : public Source {
public:
    /// From the current position of `stream`, which stays the caller's, to its end. Fails for a
    /// stream that cannot be positioned, such as a pipe.
    static Result<std::unique_ptr<FileSource>> over(std::FILE* stream);

    static Result<std::unique_ptr<FileSource>> open(const std::string& path);

private:
    using Owner = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

    FileSource(Owner owner, std::FILE* stream, std::uint64_t begin, std::uint64_t end)
        : Source(begin, end, true), owner_(std::move(owner)), stream_(stream), stream_at_(begin) {
        promise(end - begin);
    }
    static Result<std::unique_ptr<FileSource>> make(Owner owner, std::FILE* stream);

    std::size_t fetch(std::uint64_t offset, std::byte* out, std::size_t size) override;

    Owner owner_;  // empty where the stream is the caller's
    std::FILE* stream_;
    std::uint64_t stream_at_;  // where the stream stands
};

class CallbackSource final : public Source {
public:
    /// Asks for at most `max_chunk` bytes at a time, 0: any number, and for nothing past
    /// `max_size`.
    CallbackSource(gguf_reader_callback_t callback, void* user_data, std::size_t max_chunk,
                   std::uint64_t max_size)
        : Source(0, max_size, false),
          callback_(callback),
          user_data_(user_data),
          max_chunk_(max_chunk == 0 ? SIZE_MAX : max_chunk) {}

private:
    std::size_t fetch(std::uint64_t offset, std::byte* out, std::size_t size) override;

    gguf_reader_callback_t callback_;
    void* user_data_;
    std::size_t max_chunk_;
};

}  // namespace heddle::gguf
