/// Model files drawn from choices: well-formed first, then damaged where damage is most likely to
/// be believed.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "tests/campaign/choices.hpp"
#include "tests/campaign/door.hpp"

namespace heddle::campaign {

/// A number in a file that says how the bytes behind it are read: a count, a length, a type.
struct DraftField {
    std::size_t at, width;
    const char* is;
};

/// A pair, or the description of a tensor: what can be doubled, left out or put elsewhere.
struct DraftItem {
    std::size_t begin, end;
};

/// The bytes of a file and where its structure lies in them.
struct GgufDraft {
    std::vector<std::byte> bytes;
    std::vector<DraftField> fields;
    std::vector<DraftItem> items;
    std::size_t pairs = 0, tensors = 0;  ///< as they were drawn
};

/// A well-formed file: values of every type, tensors of every type, any alignment.
GgufDraft draw_gguf(Choices& choices);

/// The structure of a file that is known to be well-formed.
GgufDraft draft_of(std::vector<std::byte> bytes);

/// Damages a file in one to four places, by structure or by bytes.
void damage(GgufDraft& file, Choices& choices, Trace& trace);

}  // namespace heddle::campaign
