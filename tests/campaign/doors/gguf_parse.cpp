// The structure of a file that another program has written.
#include <cstring>

#include "gguf.h"
#include "tests/campaign/doors/gguf_draft.hpp"

namespace heddle::campaign {
namespace {

constexpr std::size_t kHeaderSize = 24;

/// Walks over a file that is known to be well-formed, and remembers what it meets.
class DraftReader {
public:
    explicit DraftReader(GgufDraft& draft) : draft_(draft) {}

    template <class T>
    T field(const char* is) {
        T value{};
        std::memcpy(&value, draft_.bytes.data() + at_, sizeof value);
        draft_.fields.push_back({at_, sizeof value, is});
        at_ += sizeof value;
        return value;
    }
    void text(const char* is) { at_ += field<std::uint64_t>(is); }
    void skip(std::size_t bytes) { at_ += bytes; }

    void pair() {
        const std::size_t begin = at_;
        text("length of a key");
        auto type = field<std::uint32_t>("type of a value");
        std::uint64_t count = 1;
        if (type == GGUF_TYPE_ARRAY) {
            type = field<std::uint32_t>("type of elements");
            count = field<std::uint64_t>("number of elements");
        }
        values(type, count);
        draft_.items.push_back({begin, at_});
    }

    void tensor() {
        const std::size_t begin = at_;
        text("length of a name");
        const auto dimensions = field<std::uint32_t>("number of dimensions");
        for (std::uint32_t d = 0; d < dimensions; ++d) field<std::int64_t>("extent");
        field<std::uint32_t>("type of a tensor");
        field<std::uint64_t>("offset");
        draft_.items.push_back({begin, at_});
    }

private:
    /// Single numbers are fields, too: they are what a model is described by.
    void values(std::uint32_t type, std::uint64_t count) {
        constexpr std::uint64_t kMostFields = 4;
        for (std::uint64_t i = 0; i < count; ++i) {
            const std::size_t fields = draft_.fields.size();
            switch (type) {
                case GGUF_TYPE_STRING:
                    text("length of a text");
                    break;
                case GGUF_TYPE_UINT8:
                case GGUF_TYPE_INT8:
                case GGUF_TYPE_BOOL:
                    field<std::uint8_t>("value");
                    break;
                case GGUF_TYPE_UINT16:
                case GGUF_TYPE_INT16:
                    field<std::uint16_t>("value");
                    break;
                case GGUF_TYPE_UINT32:
                case GGUF_TYPE_INT32:
                case GGUF_TYPE_FLOAT32:
                    field<std::uint32_t>("value");
                    break;
                default:
                    field<std::uint64_t>("value");
                    break;
            }
            if (i >= kMostFields) draft_.fields.resize(fields);
        }
    }

    GgufDraft& draft_;
    std::size_t at_ = 0;
};

}  // namespace

GgufDraft draft_of(std::vector<std::byte> bytes) {
    GgufDraft draft;
    draft.bytes = std::move(bytes);
    if (draft.bytes.size() < kHeaderSize) return draft;
    DraftReader reader(draft);
    reader.skip(4);
    reader.field<std::uint32_t>("version");
    draft.tensors = reader.field<std::uint64_t>("number of tensors");
    draft.pairs = reader.field<std::uint64_t>("number of pairs");
    for (std::size_t i = 0; i < draft.pairs; ++i) reader.pair();
    for (std::size_t i = 0; i < draft.tensors; ++i) reader.tensor();
    return draft;
}

}  // namespace heddle::campaign
