#include "runtime/in_use.hpp"

#include <pthread.h>

#include <array>
#include <cstdint>

#include "runtime/stream.hpp"

namespace heddle {
namespace {

using Slot = std::atomic<const Stream*>;

/// The streams that are computing now, by their addresses: each bucket is a cache line. If more
/// than eight of one bucket compute at once, the ninth is not watched.
struct alignas(64) Bucket {
    std::array<Slot, 8> slots{};
};
constexpr unsigned kBits = 6;
std::array<Bucket, std::size_t{1} << kBits> buckets;

Bucket& bucket_of(const Stream& stream) {
    const auto address = reinterpret_cast<std::uintptr_t>(&stream);
    const std::uint64_t mixed = std::uint64_t{address} * 0x9E3779B97F4A7C15u;
    return buckets[mixed >> (64 - kBits)];
}

bool has(const Bucket& bucket, const Stream& stream, const Slot* except = nullptr) {
    for (const Slot& slot : bucket.slots) {
        if (&slot != except && slot.load() == &stream) return true;
    }
    return false;
}

/// Only the thread that calls fork() comes along to the child: what others were computing is not
/// being computed there.
[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, [] {
    for (Bucket& bucket : buckets) {
        for (Slot& slot : bucket.slots) slot.store(nullptr, std::memory_order_relaxed);
    }
});

}  // namespace

StreamUse::StreamUse(Stream& stream) noexcept : stream_(stream) {
    Bucket& bucket = bucket_of(stream);
    if (has(bucket, stream)) {
        is_alone_ = false;
        return;
    }
    for (Slot& slot : bucket.slots) {
        const Stream* none = nullptr;
        if (!slot.compare_exchange_strong(none, &stream)) continue;
        slot_ = &slot;
        break;
    }
    // Two that came at the same moment may have taken different slots: then both see it here.
    is_alone_ = !has(bucket, stream, slot_);
}

Error StreamUse::refusal() const {
    return invalid("stream '", name_of(stream_),
                   "' is computing already, in another thread or further up in this one; only one "
                   "at a time may use it");
}

}  // namespace heddle
