#pragma once

#include <cstdint>
#include <string_view>

#include "core/error.hpp"

/// Failures told to a thread. Functions of plug-in tables that return nothing tell theirs this way,
/// through heddle_report_error(), and C callers ask for the last sentence.
namespace heddle {

/// Makes `sentence` the calling thread's last one. Takes no memory.
void keep_sentence(std::string_view sentence) noexcept;

/// The calling thread's last sentence; "" if there is none.
const char* last_sentence() noexcept;

void forget_sentence() noexcept;

/// How many failures the calling thread was told of so far.
std::uint64_t failures_told() noexcept;

/// Hears what the calling thread is told of from now on: set up before a call through a table.
class Listener {
public:
    bool heard() const noexcept { return failures_told() != told_; }

    /// Success, unless something was told: then a failure that begins with `parts`.
    template <class... Parts>
    Result<> outcome(const Parts&... parts) const {
        if (!heard()) [[likely]]
            return ok();
        return failure(Errc::device, parts..., ": ", last_sentence());
    }

private:
    std::uint64_t told_ = failures_told();
};

}  // namespace heddle
