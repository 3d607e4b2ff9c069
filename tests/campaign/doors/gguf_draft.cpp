#include "tests/campaign/doors/gguf_draft.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>

#include "gguf.h"

namespace heddle::campaign {
namespace {

constexpr std::array<std::size_t, GGUF_TYPE_COUNT> kWidths{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
constexpr std::size_t kDefaultAlignment = GGUF_DEFAULT_ALIGNMENT;

/// Appends to a file and remembers its structure.
class DraftWriter {
public:
    template <class T>
    void number(T value) {
        const auto* bytes = reinterpret_cast<const std::byte*>(&value);
        draft.bytes.insert(draft.bytes.end(), bytes, bytes + sizeof value);
    }

    template <class T>
    void field(const char* is, T value) {
        draft.fields.push_back({draft.bytes.size(), sizeof value, is});
        number(value);
    }

    void text(const char* is, std::string_view text) {
        field<std::uint64_t>(is, text.size());
        const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
        draft.bytes.insert(draft.bytes.end(), bytes, bytes + text.size());
    }

    void begin_item() { draft.items.push_back({draft.bytes.size(), 0}); }
    void end_item() { draft.items.back().end = draft.bytes.size(); }
    void pad(std::size_t alignment) {
        draft.bytes.resize((draft.bytes.size() + alignment - 1) / alignment * alignment);
    }

    GgufDraft draft;
};

/// Texts with what trips up readers: a NUL inside, all 63 letters, escape sequences.
std::string draw_text(Choices& choices, std::size_t number) {
    const std::string unique = std::to_string(number);
    switch (choices.below(8)) {
        case 1:
            return "general.architecture" + unique;
        case 2:
            return "a" + unique + std::string("\0b", 2);
        case 3:
            return std::string(63 - unique.size(), 'x') + unique;
        case 4:
            return "\x1b[2J\xff\xfe" + unique;
        case 5:
            return "ключ" + unique;
        default:
            return "k" + unique;
    }
}

/// The same for keys and tensors. Names end at a NUL for C callers, so files with one are refused.
std::string draw_name(Choices& choices, std::size_t number) {
    std::string name = draw_text(choices, number);
    std::ranges::replace(name, '\0', '.');
    return name;
}

void draw_elements(DraftWriter& out, Choices& choices, std::uint32_t type, std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
        if (type == GGUF_TYPE_STRING) {
            out.text("length of a text", choices.one_in(4) ? draw_text(choices, i) : "v");
            continue;
        }
        const std::uint64_t value = choices.below(4) == 3 ? choices.bits() : choices.below(256);
        const auto* bytes = reinterpret_cast<const std::byte*>(&value);
        out.draft.bytes.insert(out.draft.bytes.end(), bytes, bytes + kWidths[type]);
    }
}

void draw_pair(DraftWriter& out, Choices& choices, std::size_t number) {
    out.begin_item();
    out.text("length of a key", draw_name(choices, number));
    std::uint32_t type = choices.below(GGUF_TYPE_COUNT);
    out.field("type of a value", type);
    std::uint64_t count = 1;
    if (type == GGUF_TYPE_ARRAY) {
        type = choices.pick<std::uint32_t>({0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12});
        count = choices.below(6);
        if (choices.one_in(32)) count = choices.below(600);
        out.field("type of elements", type);
        out.field("number of elements", count);
    }
    draw_elements(out, choices, type, count);
    out.end_item();
}

/// The types a tensor can have.
const std::vector<std::uint32_t>& tensor_types() {
    static const std::vector<std::uint32_t> types = [] {
        std::vector<std::uint32_t> list;
        for (std::uint32_t t = 0; t < GGML_TYPE_COUNT; ++t) {
            if (ggml_blck_size(static_cast<ggml_type>(t)) > 0) list.push_back(t);
        }
        return list;
    }();
    return types;
}

/// Describes a tensor that begins at `offset` of the data; gives the bytes it has there.
std::size_t draw_tensor(DraftWriter& out, Choices& choices, std::size_t number,
                        std::uint64_t offset) {
    out.begin_item();
    out.text("length of a name", draw_name(choices, number));
    const auto& types = tensor_types();
    const std::uint32_t type = types[choices.below(static_cast<std::uint32_t>(types.size()))];
    const auto dimensions = static_cast<std::uint32_t>(choices.between(1, 5) % 5);
    const std::int64_t block = ggml_blck_size(static_cast<ggml_type>(type));
    if (dimensions == 0 && block > 1) {
        out.draft.items.pop_back();  // one element is no whole block
        return std::numeric_limits<std::size_t>::max();
    }
    out.field("number of dimensions", dimensions);
    std::size_t elements = 1;
    for (std::uint32_t d = 0; d < dimensions; ++d) {
        const std::int64_t extent = (d == 0 ? block : 1) * choices.pick<std::int64_t>({1, 2, 3, 0});
        out.field("extent", extent);
        elements *= static_cast<std::size_t>(extent);
    }
    out.field("type of a tensor", type);
    out.field("offset", offset);
    out.end_item();
    return elements / static_cast<std::size_t>(block) *
           ggml_type_size(static_cast<ggml_type>(type));
}

void set_number(GgufDraft& file, std::size_t at, std::size_t width, std::uint64_t value) {
    std::memcpy(file.bytes.data() + at, &value, width);
}

/// Bytes are put in at `at`: what lies behind moves.
void insert(GgufDraft& file, std::size_t at, std::vector<std::byte> bytes) {
    file.bytes.insert(file.bytes.begin() + static_cast<std::ptrdiff_t>(at), bytes.begin(),
                      bytes.end());
    for (auto& field : file.fields) field.at += field.at >= at ? bytes.size() : 0;
    for (auto& item : file.items) {
        if (item.begin < at) continue;
        item.begin += bytes.size();
        item.end += bytes.size();
    }
}

void erase(GgufDraft& file, std::size_t begin, std::size_t end) {
    const auto first = file.bytes.begin();
    file.bytes.erase(first + static_cast<std::ptrdiff_t>(begin),
                     first + static_cast<std::ptrdiff_t>(end));
    std::erase_if(file.fields, [&](auto& f) { return f.at + f.width > begin && f.at < end; });
    std::erase_if(file.items, [&](auto& i) { return i.end > begin && i.begin < end; });
    for (auto& field : file.fields) field.at -= field.at >= end ? end - begin : 0;
    for (auto& item : file.items) {
        if (item.begin < end) continue;
        item.begin -= end - begin;
        item.end -= end - begin;
    }
}

// ---- kinds of damage ---------------------------------------------------------------------------

std::uint64_t hostile_number(Choices& choices, std::uint64_t was, std::size_t length) {
    constexpr std::uint64_t one = 1;
    switch (choices.below(12)) {
        case 0:
            return was + 1;
        case 1:
            return was - 1;
        case 2:
            return 0;
        case 3:
            return ~std::uint64_t{0};
        case 4:
            return one << choices.below(64);
        case 5:
            return (one << choices.below(64)) - 1;
        case 6:
            return std::uint64_t{0} - (one << choices.below(64));
        case 7:
            return length - choices.below(64);
        case 8:
            return was * 2;
        case 9:
            return (one << 63) - 32 * choices.below(4);
        case 10:
            return choices.below(64);
        default:
            return choices.bits();
    }
}

void damage_field(GgufDraft& file, Choices& choices, Trace& trace) {
    if (file.fields.empty()) return;
    const DraftField field =
        file.fields[choices.below(static_cast<std::uint32_t>(file.fields.size()))];
    std::uint64_t was = 0;
    std::memcpy(&was, file.bytes.data() + field.at, field.width);
    const std::uint64_t now = hostile_number(choices, was, file.bytes.size() - field.at);
    set_number(file, field.at, field.width, now);
    trace.line("at byte ", field.at, ": ", field.is, " ", was, " becomes ", now);
}

/// The number of pairs and of tensors in the header follow, or do not.
void damage_count(GgufDraft& file, Choices& choices, int change) {
    const std::size_t at = choices.below(2) == 0 ? 16 : 8;
    if (file.bytes.size() < at + 8 || choices.one_in(3)) return;
    std::uint64_t count = 0;
    std::memcpy(&count, file.bytes.data() + at, sizeof count);
    set_number(file, at, sizeof count, count + static_cast<std::uint64_t>(change));
}

void double_item(GgufDraft& file, Choices& choices, Trace& trace) {
    if (file.items.empty()) return;
    const auto items = static_cast<std::uint32_t>(file.items.size());
    const DraftItem from = file.items[choices.below(items)], to = file.items[choices.below(items)];
    const auto first = file.bytes.begin();
    insert(file, to.begin,
           {first + static_cast<std::ptrdiff_t>(from.begin),
            first + static_cast<std::ptrdiff_t>(from.end)});
    damage_count(file, choices, 1);
    trace.line("bytes ", from.begin, " to ", from.end, " a second time at ", to.begin);
}

void drop_item(GgufDraft& file, Choices& choices, Trace& trace) {
    if (file.items.empty()) return;
    const DraftItem item = file.items[choices.below(static_cast<std::uint32_t>(file.items.size()))];
    erase(file, item.begin, item.end);
    damage_count(file, choices, -1);
    trace.line("bytes ", item.begin, " to ", item.end, " left out");
}

void cut(GgufDraft& file, Choices& choices, Trace& trace) {
    const auto size = static_cast<std::uint32_t>(file.bytes.size());
    const std::size_t left =
        choices.one_in(2) ? size - std::min(size, choices.below(66)) : choices.below(size + 1);
    erase(file, left, size);
    trace.line("cut to ", left, " bytes");
}

void damage_bytes(GgufDraft& file, Choices& choices, Trace& trace) {
    if (file.bytes.empty()) return;
    for (std::uint32_t n = choices.below(4) + 1; n > 0; --n) {
        const std::uint32_t at = choices.below(static_cast<std::uint32_t>(file.bytes.size()));
        file.bytes[at] = static_cast<std::byte>(choices.below(256));
        trace.line("byte ", at, " becomes ", static_cast<int>(file.bytes[at]));
    }
}

void move_bytes(GgufDraft& file, Choices& choices, Trace& trace) {
    const std::uint32_t at = choices.below(static_cast<std::uint32_t>(file.bytes.size()) + 1);
    const std::uint32_t count = choices.below(9) + 1;
    if (choices.below(2) == 0) {
        insert(file, at, std::vector<std::byte>(count, std::byte{0}));
        trace.line(count, " bytes more at ", at);
    } else {
        erase(file, at, std::min<std::size_t>(at + count, file.bytes.size()));
        trace.line(count, " bytes fewer at ", at);
    }
}

}  // namespace

GgufDraft draw_gguf(Choices& choices) {
    DraftWriter out;
    const std::uint64_t pairs = choices.below(7);
    const std::uint64_t tensors = choices.below(6);
    const auto alignment = choices.pick<std::uint32_t>({32, 0, 1, 8, 64, 4096});
    const std::size_t step = alignment == 0 ? kDefaultAlignment : alignment;

    out.number(std::uint32_t{0x46554747});  // "GGUF"
    out.field("version", choices.pick<std::uint32_t>({3, 2}));
    out.field("number of tensors", tensors);
    out.field("number of pairs", pairs + (alignment != 0 ? 1 : 0));
    for (std::uint64_t i = 0; i < pairs; ++i) draw_pair(out, choices, i);
    if (alignment != 0) {
        out.begin_item();
        out.text("length of a key", GGUF_KEY_GENERAL_ALIGNMENT);
        out.field("type of a value", std::uint32_t{GGUF_TYPE_UINT32});
        out.field("alignment", alignment);
        out.end_item();
    }

    std::uint64_t offset = 0;
    std::uint64_t described = 0;
    for (std::uint64_t i = 0; i < tensors; ++i) {
        const std::size_t before = out.draft.bytes.size(), fields = out.draft.fields.size();
        const std::size_t size = draw_tensor(out, choices, i, offset);
        if (size == std::numeric_limits<std::size_t>::max()) {
            out.draft.bytes.resize(before);
            out.draft.fields.resize(fields);
            continue;
        }
        ++described;
        offset += (size + step - 1) / step * step;
    }
    set_number(out.draft, 8, sizeof described, described);
    out.pad(step);
    for (std::uint64_t i = 0; i < offset; ++i) {
        out.draft.bytes.push_back(static_cast<std::byte>(i * 7));
    }
    out.draft.pairs = static_cast<std::size_t>(pairs) + (alignment != 0 ? 1 : 0);
    out.draft.tensors = static_cast<std::size_t>(described);
    return std::move(out.draft);
}

void damage(GgufDraft& file, Choices& choices, Trace& trace) {
    for (auto n = choices.pick({1, 1, 1, 1, 2, 2, 3, 4}); n > 0; --n) {
        switch (choices.below(12)) {
            case 6:
                double_item(file, choices, trace);
                break;
            case 7:
                drop_item(file, choices, trace);
                break;
            case 8:
                cut(file, choices, trace);
                break;
            case 9:
                damage_bytes(file, choices, trace);
                break;
            case 10:
                move_bytes(file, choices, trace);
                break;
            default:
                damage_field(file, choices, trace);
                break;
        }
    }
}

}  // namespace heddle::campaign
