#pragma once

#include <atomic>
#include <utility>

#include "core/error.hpp"
#include "runtime/objects.hpp"

/// Notices that an object is used by two threads at once that only one at a time may use. That is a
/// mistake of the program which otherwise shows as a wrong result now and then.
namespace heddle {

/// A mark in an object on who uses it.
class InUse {
public:
    /// The mark, while it is set.
    class Use {
    public:
        Use(Use&& other) noexcept : mark_(std::exchange(other.mark_, nullptr)) {}
        Use& operator=(Use&&) = delete;
        ~Use() {
            if (mark_ != nullptr) mark_->user_.store(nullptr, std::memory_order_release);
        }

    private:
        friend class InUse;
        explicit Use(InUse* mark) : mark_(mark) {}
        InUse* mark_;  ///< null if a caller in this thread has set it
    };

    /// Fails if anybody uses the object, be it a callback's caller further up in this thread.
    Result<Use> enter() { return enter(false); }

    /// Fails if another thread uses the object.
    Result<Use> enter_again() { return enter(true); }

private:
    Result<Use> enter(bool may_be_ours) {
        const void* user = nullptr;
        const void* const me = this_thread();
        if (user_.compare_exchange_strong(user, me, std::memory_order_acquire)) return Use(this);
        if (user == me && may_be_ours) return Use(nullptr);
        return invalid("it is in use ",
                       user == me ? "further up in this thread" : "in another thread",
                       "; only one at a time may use it");
    }

    /// An address that no other living thread has.
    static const void* this_thread() noexcept {
        static thread_local constinit char here = 0;
        return &here;
    }

    std::atomic<const void*> user_{nullptr};
};

/// The same for streams, whose layout has no room for a mark: set while one computes.
class StreamUse {
public:
    explicit StreamUse(Stream& stream) noexcept;
    ~StreamUse() {
        if (slot_ != nullptr) slot_->store(nullptr, std::memory_order_release);
    }
    StreamUse(const StreamUse&) = delete;
    StreamUse& operator=(const StreamUse&) = delete;

    /// Fails if the stream is computing already.
    Result<> check() const {
        if (is_alone_) [[likely]]
            return ok();
        return refusal();
    }

private:
    Error refusal() const;

    Stream& stream_;
    std::atomic<const Stream*>* slot_ = nullptr;
    bool is_alone_ = true;
};

}  // namespace heddle
