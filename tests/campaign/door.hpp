#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>

#include "choices.hpp"
#include "heddle/result.hpp"

namespace heddle::campaign {

/// What a case did, line by line, for whoever reads the finding ("x = ggml_new_tensor_2d(ctx,
/// GGML_TYPE_Q4_0, 64, 8)"). Most cases pass and nobody reads theirs, so lines are only made where
/// they are wanted: when a finding is run again.
class Trace {
public:
    /// Keeps nothing.
    Trace() = default;
    /// Keeps as many characters as there are in `memory`, which may outlive a crash; always ends
    /// with a 0.
    explicit Trace(std::span<char> memory) : memory_(memory) {
        if (!memory_.empty()) memory_[0] = 0;
    }

    bool is_wanted() const { return !memory_.empty(); }

    template <class... Parts>
    void line(const Parts&... parts) {
        if (is_wanted()) append(text(parts..., '\n'));
    }

private:
    void append(std::string_view line) {
        const std::size_t room = memory_.size() - used_ - 1;
        const std::size_t n = std::min(room, line.size());
        std::copy_n(line.data(), n, memory_.data() + used_);
        used_ += n;
        memory_[used_] = 0;
    }

    std::span<char> memory_;
    std::size_t used_ = 0;
};

/// One way into the library through which anything may come.
struct Door {
    std::string_view name, summary;
    unsigned seconds;  ///< a case that takes longer hangs
    /// Runs one case. Empty, or what is wrong. Crashes and hangs are noticed by themselves, and so
    /// is heap that is still in use afterwards each time the same case is run.
    std::string (*run)(Choices& choices, Trace& trace);
    unsigned turns = 1;  ///< in a round of all doors: more where cases take long and find much
};

/// All of them.
std::span<const Door> doors();

}  // namespace heddle::campaign
