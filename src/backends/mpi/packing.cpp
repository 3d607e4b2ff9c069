#include "backends/mpi/packing.hpp"

#include <algorithm>

namespace heddle::mpi {
namespace {

enum class Packing : std::uint8_t { none, halves, words };

constexpr std::size_t kWorthwhile = 1024;  ///< bytes; fewer are sent as they are
constexpr std::size_t kGroup = 8;          ///< elements that share a byte of bits

template <class Word>
Word word_at(ByteView content, std::size_t index) {
    Word word{};
    std::memcpy(&word, content.data() + index * sizeof word, sizeof word);
    return word;
}

template <class Word>
struct TwoValues {
    Word zero{}, one{};
};

/// The values of contents that have no third one. What has many is given up at the first of them.
template <class Word>
std::optional<TwoValues<Word>> two_values(ByteView content) {
    constexpr std::size_t kBlock = 256;
    const std::size_t count = content.size() / sizeof(Word);
    TwoValues<Word> values{word_at<Word>(content, 0), word_at<Word>(content, 0)};
    for (std::size_t begin = 0; begin < count; begin += kBlock) {
        const std::size_t end = std::min(begin + kBlock, count);
        bool has_other = false;
        for (std::size_t i = begin; i < end; ++i) {
            const Word word = word_at<Word>(content, i);
            has_other |= (word != values.zero) & (word != values.one);
        }
        if (!has_other) continue;
        for (std::size_t i = begin; i < end; ++i) {
            const Word word = word_at<Word>(content, i);
            if (word == values.zero || word == values.one) continue;
            if (values.zero != values.one) return std::nullopt;
            values.one = word;
        }
    }
    return values;
}

template <class Word>
bool put_bits(ByteWriter& out, ByteView content, Packing packing) {
    if (content.size() % (kGroup * sizeof(Word)) != 0) return false;
    const auto values = two_values<Word>(content);
    if (!values) return false;
    out.put(packing);
    out.put(values->zero);
    out.put(values->one);
    const std::size_t groups = content.size() / (kGroup * sizeof(Word));
    std::byte* const bits = out.extend(groups);
    for (std::size_t group = 0; group < groups; ++group) {
        unsigned byte = 0;
        for (std::size_t i = 0; i < kGroup; ++i) {
            byte |= unsigned{word_at<Word>(content, group * kGroup + i) != values->zero} << i;
        }
        bits[group] = static_cast<std::byte>(byte);
    }
    return true;
}

template <class Word>
std::optional<Bytes> get_bits(ByteReader& in, std::size_t size) {
    const TwoValues<Word> values{in.get<Word>(), in.get<Word>()};
    const ByteView bits = in.rest();
    if (!in.ok() || size % (kGroup * sizeof(Word)) != 0 ||
        bits.size() != size / (kGroup * sizeof(Word))) {
        return std::nullopt;
    }
    Bytes content(size);
    std::byte* to = content.data();
    for (const std::byte byte : bits) {
        for (std::size_t i = 0; i < kGroup; ++i, to += sizeof(Word)) {
            const bool is_one = (static_cast<unsigned>(byte) >> i & 1) != 0;
            std::memcpy(to, is_one ? &values.one : &values.zero, sizeof(Word));
        }
    }
    return content;
}

}  // namespace

void put_packed(ByteWriter& out, ByteView content) {
    if (content.size() >= kWorthwhile) {
        if (put_bits<std::uint32_t>(out, content, Packing::words)) return;
        if (put_bits<std::uint16_t>(out, content, Packing::halves)) return;
    }
    std::byte* const to = extend_plain(out, content.size());
    std::ranges::copy(content, to);
}

std::byte* extend_plain(ByteWriter& out, std::size_t size) {
    out.put(Packing::none);
    return out.extend(size);
}

Result<Unpacked> Unpacked::get(ByteReader& in, std::size_t size) {
    Unpacked content;
    switch (in.get<Packing>()) {
        case Packing::none:
            content.in_message_ = in.rest();
            if (in.ok() && content.in_message_.size() == size) return content;
            break;
        case Packing::halves:
            content.unpacked_ = get_bits<std::uint16_t>(in, size);
            if (content.unpacked_) return content;
            break;
        case Packing::words:
            content.unpacked_ = get_bits<std::uint32_t>(in, size);
            if (content.unpacked_) return content;
            break;
    }
    return failure(Errc::corrupt, "contents that are not the ", size, " bytes of a tensor");
}

}  // namespace heddle::mpi
