// Files that cannot be opened, read or written. Standard error always works: that is where the
// sentence goes.

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>

#include "tests/faults/fault_points.hpp"
#include "tests/faults/real_function.hpp"

namespace heddle::faults {
namespace {

constexpr int kStreamHasFailed = 0x20;  ///< _IO_ERR_SEEN of glibc: ferror() says yes

bool fails(Kind kind, int reason) {
    if (!strikes(kind)) return false;
    errno = reason;
    return true;
}

bool writing_fails(int file) {
    if (file == STDERR_FILENO) return false;
    return fails(file == STDOUT_FILENO ? Kind::print : Kind::write, ENOSPC);
}

/// As above, and the stream remembers.
bool writing_fails(std::FILE* stream) {
    if (stream == stderr || !writing_fails(fileno(stream))) return false;
    stream->_flags |= kStreamHasFailed;
    return true;
}

bool reading_fails(std::FILE* stream) {
    if (!fails(Kind::read, EIO)) return false;
    stream->_flags |= kStreamHasFailed;
    return true;
}

/// What a call to open a file gave.
int counted(int file) {
    count_open(file);
    return file;
}

std::FILE* counted(std::FILE* stream) {
    if (stream != nullptr) count_open(fileno(stream));
    return stream;
}

/// The mode behind `flags`, if there is one.
mode_t mode_of(int flags, std::va_list more) {
    return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(more, mode_t) : 0;
}

}  // namespace
}  // namespace heddle::faults

using heddle::faults::counted;
using heddle::faults::fails;
using heddle::faults::Kind;
using heddle::faults::mode_of;
using heddle::faults::reading_fails;
using heddle::faults::real_function;
using heddle::faults::writing_fails;

extern "C" {

// ---- opening -----------------------------------------------------------------------------------

int open(const char* path, int flags, ...) {
    static const auto real = real_function<decltype(&::open)>("open");
    std::va_list more;
    va_start(more, flags);
    const mode_t mode = mode_of(flags, more);
    va_end(more);
    return fails(Kind::open, EMFILE) ? -1 : counted(real(path, flags, mode));
}

int open64(const char* path, int flags, ...) {
    std::va_list more;
    va_start(more, flags);
    const mode_t mode = mode_of(flags, more);
    va_end(more);
    return open(path, flags, mode);
}

int openat(int directory, const char* path, int flags, ...) {
    static const auto real = real_function<decltype(&::openat)>("openat");
    std::va_list more;
    va_start(more, flags);
    const mode_t mode = mode_of(flags, more);
    va_end(more);
    return fails(Kind::open, EMFILE) ? -1 : counted(real(directory, path, flags, mode));
}

int openat64(int directory, const char* path, int flags, ...) {
    std::va_list more;
    va_start(more, flags);
    const mode_t mode = mode_of(flags, more);
    va_end(more);
    return openat(directory, path, flags, mode);
}

int mkostemp(char* path, int flags) {
    static const auto real = real_function<decltype(&::mkostemp)>("mkostemp");
    return fails(Kind::open, EMFILE) ? -1 : real(path, flags);
}

int mkstemp(char* path) { return mkostemp(path, 0); }
int mkstemp64(char* path) { return mkostemp(path, 0); }
int mkostemp64(char* path, int flags) { return mkostemp(path, flags); }

std::FILE* fopen(const char* __restrict path, const char* __restrict mode) {
    static const auto real = real_function<decltype(&::fopen)>("fopen");
    return fails(Kind::open, EMFILE) ? nullptr : counted(real(path, mode));
}

std::FILE* fopen64(const char* __restrict path, const char* __restrict mode) {
    return fopen(path, mode);
}

std::FILE* fdopen(int file, const char* mode) noexcept {
    static const auto real = real_function<decltype(&::fdopen)>("fdopen");
    return fails(Kind::open, ENOMEM) ? nullptr : real(file, mode);
}

DIR* opendir(const char* path) {
    static const auto real = real_function<decltype(&::opendir)>("opendir");
    return fails(Kind::open, EMFILE) ? nullptr : real(path);
}

// ---- reading -----------------------------------------------------------------------------------

ssize_t read(int file, void* to, std::size_t size) {
    static const auto real = real_function<decltype(&::read)>("read");
    return fails(Kind::read, EIO) ? -1 : real(file, to, size);
}

ssize_t pread(int file, void* to, std::size_t size, off_t offset) {
    static const auto real = real_function<decltype(&::pread)>("pread");
    return fails(Kind::read, EIO) ? -1 : real(file, to, size, offset);
}

ssize_t pread64(int file, void* to, std::size_t size, off64_t offset) {
    return pread(file, to, size, offset);
}

std::size_t fread(void* __restrict to, std::size_t size, std::size_t count,
                  std::FILE* __restrict stream) {
    static const auto real = real_function<decltype(&::fread)>("fread");
    return reading_fails(stream) ? 0 : real(to, size, count, stream);
}

int fseeko(std::FILE* stream, off_t offset, int from) {
    static const auto real = real_function<decltype(&::fseeko)>("fseeko");
    return fails(Kind::read, EIO) ? -1 : real(stream, offset, from);
}

int fseeko64(std::FILE* stream, off64_t offset, int from) { return fseeko(stream, offset, from); }

off_t ftello(std::FILE* stream) {
    static const auto real = real_function<decltype(&::ftello)>("ftello");
    return fails(Kind::read, EIO) ? -1 : real(stream);
}

off64_t ftello64(std::FILE* stream) { return ftello(stream); }

// ---- writing -----------------------------------------------------------------------------------

ssize_t write(int file, const void* from, std::size_t size) {
    static const auto real = real_function<decltype(&::write)>("write");
    return writing_fails(file) ? -1 : real(file, from, size);
}

ssize_t writev(int file, const iovec* pieces, int count) {
    static const auto real = real_function<decltype(&::writev)>("writev");
    return writing_fails(file) ? -1 : real(file, pieces, count);
}

std::size_t fwrite(const void* __restrict from, std::size_t size, std::size_t count,
                   std::FILE* __restrict stream) {
    static const auto real = real_function<decltype(&::fwrite)>("fwrite");
    return writing_fails(stream) ? 0 : real(from, size, count, stream);
}

int fflush(std::FILE* stream) {
    static const auto real = real_function<decltype(&::fflush)>("fflush");
    if (stream != nullptr && writing_fails(stream)) return EOF;
    return real(stream);
}

int fsync(int file) {
    static const auto real = real_function<decltype(&::fsync)>("fsync");
    return fails(Kind::write, EIO) ? -1 : real(file);
}

int fdatasync(int file) {
    static const auto real = real_function<decltype(&::fdatasync)>("fdatasync");
    return fails(Kind::write, EIO) ? -1 : real(file);
}

int ftruncate(int file, off_t size) noexcept {
    static const auto real = real_function<decltype(&::ftruncate)>("ftruncate");
    return fails(Kind::write, ENOSPC) ? -1 : real(file, size);
}

int ftruncate64(int file, off64_t size) noexcept { return ftruncate(file, size); }

int fchmod(int file, mode_t mode) noexcept {
    static const auto real = real_function<decltype(&::fchmod)>("fchmod");
    return fails(Kind::write, EIO) ? -1 : real(file, mode);
}

int mkdir(const char* path, mode_t mode) noexcept {
    static const auto real = real_function<decltype(&::mkdir)>("mkdir");
    return fails(Kind::write, ENOSPC) ? -1 : real(path, mode);
}

int rename(const char* from, const char* to) noexcept {
    static const auto real = real_function<decltype(&::rename)>("rename");
    return fails(Kind::write, EIO) ? -1 : real(from, to);
}

/// What is left in the stream is lost, but the file is closed.
int fclose(std::FILE* stream) {
    static const auto real = real_function<decltype(&::fclose)>("fclose");
    const bool is_written = (fcntl(fileno(stream), F_GETFL) & O_ACCMODE) != O_RDONLY;
    const bool is_lost = is_written && writing_fails(stream);
    const int status = real(stream);
    if (is_lost) errno = ENOSPC;
    return is_lost ? EOF : status;
}

/// The file is closed all the same, as Linux does it.
int close(int file) {
    static const auto real = real_function<decltype(&::close)>("close");
    const int flags = fcntl(file, F_GETFL);
    const bool is_written = flags >= 0 && (flags & O_ACCMODE) != O_RDONLY;
    const bool is_lost = is_written && writing_fails(file);
    const int status = real(file);
    if (is_lost) errno = EIO;
    return is_lost ? -1 : status;
}

}  // extern "C"
