#include "gguf/source.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace heddle::gguf {
namespace {

constexpr std::size_t kWindowSize =
    256 * 1024;  // large enough that a read costs more than its call

}  // namespace

bool Source::read(void* out, std::size_t size) {
    if (size > remaining()) {
        end_ = position_;
        return false;
    }
    auto* to = static_cast<std::byte*>(out);
    while (size > 0) {
        const std::uint64_t at = position_ - window_begin_;  // wraps around before the window
        if (at < window_.size()) {
            const std::size_t n = std::min<std::size_t>(size, window_.size() - at);
            std::memcpy(to, window_.data() + at, n);
            position_ += n;
            to += n;
            size -= n;
        } else if (size >= kWindowSize) {  // straight to where it belongs
            const std::size_t got = fetch(position_, to, size);
            position_ += got;
            if (got < size) {
                end_ = position_;
                return false;
            }
            return true;
        } else if (!refill(size)) {
            return false;
        }
    }
    return true;
}

/// A new window that begins here and holds at least one byte, `needed` and more where it can.
bool Source::refill(std::size_t needed) {
    const std::uint64_t known = std::min(promised_end_, end_);
    const std::uint64_t ahead = known > position_ ? known - position_ : 0;
    const std::uint64_t wanted =
        std::max<std::uint64_t>(needed, std::min<std::uint64_t>(ahead, kWindowSize));
    storage_.resize(kWindowSize);
    const std::size_t got = fetch(position_, storage_.data(), static_cast<std::size_t>(wanted));
    window_ = std::span(storage_).first(got);
    window_begin_ = position_;
    if (got < wanted) end_ = position_ + got;
    return got > 0;
}

void Source::promise(std::uint64_t bytes) {
    promised_end_ = std::max(promised_end_, position_ + std::min(bytes, remaining()));
}

void Source::set_window(std::span<const std::byte> bytes) {
    window_ = bytes;
    window_begin_ = position_;
}

Result<std::unique_ptr<FileSource>> FileSource::over(std::FILE* stream) {
    return make(Owner(nullptr, nullptr), stream);
}

Result<std::unique_ptr<FileSource>> FileSource::open(const std::string& path) {
    Owner owner(std::fopen(path.c_str(), "rb"), std::fclose);
    if (owner == nullptr) {
        const Errc code = errno == ENOENT ? Errc::not_found : Errc::io;
        return failure(code, "cannot open '", path, "': ", std::strerror(errno));
    }
    std::FILE* stream = owner.get();
    return make(std::move(owner), stream);
}

Result<std::unique_ptr<FileSource>> FileSource::make(Owner owner, std::FILE* stream) {
    const auto begin = ftello(stream);
    if (begin < 0 || fseeko(stream, 0, SEEK_END) != 0) {
        return failure(Errc::io, "the stream cannot be positioned: ", std::strerror(errno));
    }
    const auto end = ftello(stream);
    if (end < begin || fseeko(stream, begin, SEEK_SET) != 0) {
        return failure(Errc::io, "the stream cannot be positioned between ", begin, " and ", end);
    }
    return std::unique_ptr<FileSource>(new FileSource(std::move(owner), stream,
                                                      static_cast<std::uint64_t>(begin),
                                                      static_cast<std::uint64_t>(end)));
}

std::size_t FileSource::fetch(std::uint64_t offset, std::byte* out, std::size_t size) {
    if (offset != stream_at_ && fseeko(stream_, static_cast<off_t>(offset), SEEK_SET) != 0)
        return 0;
    const std::size_t got = std::fread(out, 1, size, stream_);
    stream_at_ = offset + got;
    return got;
}

std::size_t CallbackSource::fetch(std::uint64_t offset, std::byte* out, std::size_t size) {
    std::size_t done = 0;
    while (done < size) {
        const std::size_t length = std::min(size - done, max_chunk_);
        const std::size_t got = callback_(user_data_, out + done, offset + done, length);
        if (got > length) break;  // a callback that makes no sense has nothing to give
        done += got;
        if (got < length) break;
    }
    return done;
}

}  // namespace heddle::gguf
