#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "backends/mpi/staging.hpp"

/// Messages as bytes, little-endian.
namespace heddle::mpi {

static_assert(std::endian::native == std::endian::little,
              "ranks exchange numbers as they are in memory");

/// `Bytes(n)` and `resize` leave new bytes without a value.
using Bytes = std::vector<std::byte, StagingAllocator<std::byte>>;
using ByteView = std::span<const std::byte>;

/// Puts values one behind the other.
class ByteWriter {
public:
    ByteWriter() = default;
    explicit ByteWriter(std::size_t expected) { bytes_.reserve(expected); }

    template <class T>
    void put(T value) {
        static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
        raw(std::as_bytes(std::span(&value, 1)));
    }
    void raw(ByteView bytes) {
        if (!bytes.empty()) std::memcpy(extend(bytes.size()), bytes.data(), bytes.size());
    }

    /// At most 64 KiB of it.
    void text(std::string_view text) {
        text = text.substr(0, UINT16_MAX);
        put(static_cast<std::uint16_t>(text.size()));
        raw(std::as_bytes(std::span(text)));
    }

    /// Room for `size` bytes that the caller fills.
    std::byte* extend(std::size_t size) {
        bytes_.resize(bytes_.size() + size);
        return bytes_.data() + bytes_.size() - size;
    }

    /// Writes over a value that was put before.
    template <class T>
    void patch(std::size_t at, T value) {
        std::memcpy(bytes_.data() + at, &value, sizeof value);
    }

    std::size_t size() const { return bytes_.size(); }
    ByteView view() const { return bytes_; }
    Bytes take() { return std::move(bytes_); }

private:
    Bytes bytes_;
};

/// Takes values that another rank has put, which may be anything: whatever is not there reads as
/// zero, and `ok` says so once at the end.
class ByteReader {
public:
    explicit ByteReader(ByteView bytes) : rest_(bytes) {}

    template <class T>
    T get() {
        static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
        T value{};
        const ByteView taken = raw(sizeof value);
        if (taken.size() == sizeof value) std::memcpy(&value, taken.data(), sizeof value);
        return value;
    }

    /// Empty if there are not so many.
    ByteView raw(std::size_t size) {
        if (size > rest_.size()) {
            ok_ = false;
            rest_ = {};
            return {};
        }
        const ByteView taken = rest_.first(size);
        rest_ = rest_.subspan(size);
        return taken;
    }

    std::string text(std::size_t limit = 4096) {
        const std::size_t size = get<std::uint16_t>();
        if (size > limit) fail();
        const ByteView taken = raw(ok_ ? size : 0);
        return {reinterpret_cast<const char*>(taken.data()), taken.size()};
    }

    ByteView rest() { return raw(rest_.size()); }
    std::size_t left() const { return rest_.size(); }

    /// What was read is not what it should be.
    void fail() {
        ok_ = false;
        rest_ = {};
    }
    bool ok() const { return ok_; }

    /// All was there, and nothing is left over.
    bool finished() const { return ok_ && rest_.empty(); }

private:
    ByteView rest_;
    bool ok_ = true;
};

}  // namespace heddle::mpi
