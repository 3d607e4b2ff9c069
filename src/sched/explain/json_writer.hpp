#pragma once

#include <charconv>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace heddle::sched {

/// Writes JSON in the order it is told. Commas and escapes are its business; that objects and
/// arrays are closed is the caller's.
class JsonWriter {
public:
    JsonWriter& begin_object() { return open('{'); }
    JsonWriter& end_object() { return close('}'); }
    JsonWriter& begin_array() { return open('['); }
    JsonWriter& end_array() { return close(']'); }

    JsonWriter& key(std::string_view name) {
        separate();
        write_string(name);
        out_ += ':';
        needs_comma_ = false;
        return *this;
    }

    JsonWriter& value(std::string_view text) {
        separate();
        write_string(text);
        return *this;
    }
    JsonWriter& value(const char* text) { return value(std::string_view(text)); }
    JsonWriter& value(bool truth) { return write(truth ? "true" : "false"); }
    JsonWriter& value(std::integral auto number) {
        char digits[24];
        const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
        return write({digits, static_cast<std::size_t>(end - digits)});
    }
    /// The shortest form that reads back as the same number; null for what is none.
    JsonWriter& value(double number) {
        if (!std::isfinite(number)) return write("null");
        char digits[32];
        const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
        return write({digits, static_cast<std::size_t>(end - digits)});
    }

    JsonWriter& field(std::string_view name, const auto& content) {
        return key(name).value(content);
    }
    template <class Items>
    JsonWriter& list(std::string_view name, const Items& items) {
        key(name).begin_array();
        for (const auto& item : items) value(item);
        return end_array();
    }

    /// For people who look at it: the next thing begins a line.
    JsonWriter& new_line() {
        if (needs_comma_) out_ += ',';
        needs_comma_ = false;
        out_ += '\n';
        return *this;
    }

    const std::string& text() const& { return out_; }
    std::string text() && { return std::move(out_); }

private:
    JsonWriter& open(char bracket) {
        separate();
        out_ += bracket;
        needs_comma_ = false;
        return *this;
    }
    JsonWriter& close(char bracket) {
        out_ += bracket;
        needs_comma_ = true;
        return *this;
    }
    JsonWriter& write(std::string_view literal) {
        separate();
        out_ += literal;
        return *this;
    }
    void separate() {
        if (needs_comma_) out_ += ',';
        needs_comma_ = true;
    }
    void write_string(std::string_view text);

    std::string out_;
    bool needs_comma_ = false;
};

/// The bytes that the UTF-8 character at the start of `text` takes; 0 if there is none.
std::size_t utf8_length(std::string_view text);

}  // namespace heddle::sched
