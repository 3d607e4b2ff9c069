#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

/// A subset of Jinja, the language that chat templates are written in.
namespace heddle::tool::jinja {

/// A text of which every byte knows where it comes from: from the template itself, or from what
/// was said. What is said must not pass for the marks of a template, whatever is done to it.
class Text {
public:
    enum class Origin : char { of_template = 't', said = 's' };

    Text() = default;
    Text(std::string bytes, Origin origin)
        : bytes_(std::move(bytes)), origins_(bytes_.size(), static_cast<char>(origin)) {}

    const std::string& bytes() const { return bytes_; }
    std::string_view view() const { return bytes_; }
    std::size_t size() const { return bytes_.size(); }
    bool empty() const { return bytes_.empty(); }
    Origin origin(std::size_t at) const { return static_cast<Origin>(origins_[at]); }

    void append(const Text& more) {
        bytes_ += more.bytes_;
        origins_ += more.origins_;
    }
    /// One that replaces or escapes what came from `origin`.
    void append(std::string_view more, Origin origin) {
        bytes_ += more;
        origins_.append(more.size(), static_cast<char>(origin));
    }
    Text part(std::size_t begin, std::size_t count = std::string::npos) const;

    /// Every byte replaced by another one.
    template <class Change>
    Text changed(Change change) const {
        Text made = *this;
        for (char& c : made.bytes_) c = change(c);
        return made;
    }

private:
    std::string bytes_, origins_;
};

/// Where each character of `text` begins, and then the end.
std::vector<std::size_t> character_starts(std::string_view text);

/// Without the characters of `which` (white space if that is empty) at its ends.
enum class Ends { both, left, right };
Text trimmed(const Text& text, std::string_view which, Ends ends);

/// Every `from`, at most `most` of them, replaced by `to`.
Text replaced(const Text& text, std::string_view from, const Text& to, std::size_t most);

inline constexpr std::string_view kWhiteSpace = " \t\n\r\v\f";

}  // namespace heddle::tool::jinja
