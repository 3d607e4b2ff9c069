#include <charconv>
#include <cmath>

#include "jinja/operations.hpp"

namespace heddle::tool::jinja {
namespace {

constexpr auto kOwn = Text::Origin::of_template;

std::string number_text(double number) {
    if (std::isnan(number)) return "nan";
    if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
    const double size = std::fabs(number);
    const bool is_plain = number == 0 || (size >= 1e-4 && size < 1e16);
    char digits[64];
    const auto [end, problem] =
        std::to_chars(digits, digits + sizeof digits, number,
                      is_plain ? std::chars_format::fixed : std::chars_format::scientific);
    std::string text(digits, end);
    if (is_plain && text.find('.') == std::string::npos) text += ".0";
    return text;
}

std::string simple_text(const Value& value) {
    if (value.is_undefined()) return "";
    if (value.is<None>()) return "None";
    if (const bool* const truth = value.as<bool>()) return *truth ? "True" : "False";
    if (value.is_whole()) return std::to_string(value.whole());
    if (value.is_number()) return number_text(value.real());
    return value.space() != nullptr ? "<Namespace>" : "<function>";
}

/// Puts a text between quotes; `escape` gives what stands for a byte, or nothing where it stays.
template <class Escape>
Result<Text> quoted(State& state, const Text& text, char quote, Escape escape) {
    HEDDLE_TRY(state.spend_text(text.size()));
    Text made(std::string(1, quote), kOwn);
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text.view()[i];
        const std::string instead = escape(c);
        made.append(instead.empty() ? std::string_view(&c, 1) : instead, text.origin(i));
    }
    made.append(std::string_view(&quote, 1), kOwn);
    return made;
}

std::string hexadecimal(const char* prefix, int digits, char c) {
    constexpr char kDigits[] = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(c);
    std::string made = prefix;
    made.append(static_cast<std::size_t>(digits - 2), '0');
    return made + kDigits[byte >> 4U] + kDigits[byte & 15U];
}

Result<Text> text_source(State& state, const Text& text) {
    const bool has_single = text.view().find('\'') != std::string::npos;
    const bool has_double = text.view().find('"') != std::string::npos;
    const char quote = has_single && !has_double ? '"' : '\'';
    return quoted(state, text, quote, [quote](char c) -> std::string {
        if (c == '\n') return "\\n";
        if (c == '\t') return "\\t";
        if (c == '\r') return "\\r";
        if (c == '\\' || c == quote) return std::string("\\") + c;
        const auto byte = static_cast<unsigned char>(c);
        return byte < 0x20 || byte == 0x7f ? hexadecimal("\\x", 2, c) : "";
    });
}

Result<Text> text_json(State& state, const Text& text) {
    return quoted(state, text, '"', [](char c) -> std::string {
        switch (c) {
            case '\n':
                return "\\n";
            case '\t':
                return "\\t";
            case '\r':
                return "\\r";
            case '\b':
                return "\\b";
            case '\f':
                return "\\f";
            case '"':
                return "\\\"";
            case '\\':
                return "\\\\";
            default:
                break;
        }
        return static_cast<unsigned char>(c) < 0x20 ? hexadecimal("\\u", 4, c) : "";
    });
}

/// Lists and dictionaries in JSON.
class JsonWriter {
public:
    JsonWriter(State& state, std::optional<std::size_t> indent) : state_(state), indent_(indent) {}

    Result<> write(const Value& value) {
        HEDDLE_TRY(state_.spend(1));
        // A value may hold another one many times over.
        HEDDLE_TRY(state_.check_text(made.size()));
        if (const Text* const text = value.text()) {
            HEDDLE_TRY_ASSIGN(const Text json, text_json(state_, *text));
            made.append(json);
        } else if (const Sequence* const list = value.sequence()) {
            HEDDLE_TRY(write_list(*list));
        } else if (const Dictionary* const dictionary = value.dictionary()) {
            HEDDLE_TRY(write_entries(*dictionary));
        } else if (value.is<None>()) {
            put("null");
        } else if (const bool* const truth = value.as<bool>()) {
            put(*truth ? "true" : "false");
        } else if (value.is_number()) {
            put(simple_text(value));
        } else {
            return invalid(value.kind(), " cannot be written as JSON");
        }
        return ok();
    }

    Text made;

private:
    void put(std::string_view words) { made.append(words, kOwn); }

    /// Begins the next element, or ends the last one.
    void begin_line(bool is_first, bool is_end) {
        if (!is_first && !is_end) put(indent_ ? "," : ", ");
        if (!indent_) return;
        put("\n");
        put(std::string(*indent_ * level_, ' '));
    }

    Result<> write_list(const Sequence& list) {
        if (list.items.empty()) return put("[]"), ok();
        put("[");
        ++level_;
        bool is_first = true;
        for (const Value& item : list.items) {
            begin_line(std::exchange(is_first, false), false);
            HEDDLE_TRY(write(item));
        }
        --level_;
        begin_line(false, true);
        return put("]"), ok();
    }

    Result<> write_entries(const Dictionary& dictionary) {
        if (dictionary.entries.empty()) return put("{}"), ok();
        put("{");
        ++level_;
        bool is_first = true;
        for (const auto& [key, value] : dictionary.entries) {
            begin_line(std::exchange(is_first, false), false);
            if (key.text() == nullptr) return invalid("a key of JSON is ", key.kind());
            HEDDLE_TRY(write(key));
            put(": ");
            HEDDLE_TRY(write(value));
        }
        --level_;
        begin_line(false, true);
        return put("}"), ok();
    }

    State& state_;
    std::optional<std::size_t> indent_;
    std::size_t level_ = 0;
};

Result<> append_source(State& state, Text& made, const Value& value) {
    HEDDLE_TRY_ASSIGN(const Text source, to_source(state, value));
    HEDDLE_TRY(state.spend_text(made.size() + source.size()));
    made.append(source);
    return ok();
}

}  // namespace

Result<Text> to_text(State& state, const Value& value) {
    if (const Text* const text = value.text()) {
        HEDDLE_TRY(state.spend_text(text->size()));
        return *text;
    }
    return to_source(state, value);
}

Result<Text> to_source(State& state, const Value& value) {
    HEDDLE_TRY(state.spend(1));
    if (const Text* const text = value.text()) return text_source(state, *text);
    Text made;
    bool is_first = true;
    const auto separate = [&] {
        if (!std::exchange(is_first, false)) made.append(", ", kOwn);
    };
    if (const Sequence* const list = value.sequence()) {
        made.append(list->is_tuple ? "(" : "[", kOwn);
        for (const Value& item : list->items) {
            separate();
            HEDDLE_TRY(append_source(state, made, item));
        }
        if (list->is_tuple && list->items.size() == 1) made.append(",", kOwn);
        made.append(list->is_tuple ? ")" : "]", kOwn);
        return made;
    }
    if (const Dictionary* const dictionary = value.dictionary()) {
        made.append("{", kOwn);
        for (const auto& [key, of_key] : dictionary->entries) {
            separate();
            HEDDLE_TRY(append_source(state, made, key));
            made.append(": ", kOwn);
            HEDDLE_TRY(append_source(state, made, of_key));
        }
        made.append("}", kOwn);
        return made;
    }
    return Text(simple_text(value), kOwn);
}

Result<Text> to_json(State& state, const Value& value, std::optional<std::size_t> indent) {
    JsonWriter writer(state, indent);
    HEDDLE_TRY(writer.write(value));
    HEDDLE_TRY(state.spend_text(writer.made.size()));
    return std::move(writer.made);
}

}  // namespace heddle::tool::jinja
