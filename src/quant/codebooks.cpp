#include "quant/codebooks.hpp"

#include <array>
#include <string_view>

#include "quant/codebook_texts.hpp"

namespace heddle::quant {
namespace {

/// A codebook unpacked into flat arrays, by the compiler.
template <std::size_t kRows, std::size_t kElements, std::size_t kLevels>
struct Unpacked {
    std::array<std::uint16_t, kRows> points{};
    alignas(8) std::array<std::int8_t, kRows * kElements> codes{};
    alignas(8) std::array<std::int8_t, kRows * kElements> values{};

    /// Bit i of the text (four to a hexadecimal digit, lowest first) says whether point i is a row.
    /// A text with another number of rows than kRows does not compile.
    constexpr Unpacked(std::string_view members, const std::array<std::int8_t, kLevels>& levels) {
        std::size_t row = 0;
        for (std::size_t i = 0; i < members.size(); ++i) {
            const char c = members[i];
            const unsigned digit = static_cast<unsigned>(c <= '9' ? c - '0' : c - 'a' + 10);
            for (unsigned bit = 0; bit < 4; ++bit) {
                if ((digit >> bit & 1u) != 0) add(row++, 4 * i + bit, levels);
            }
        }
        if (row != kRows) throw row;  // no constant expression, so the compiler refuses it
    }

    constexpr void add(std::size_t row, std::size_t point,
                       const std::array<std::int8_t, kLevels>& levels) {
        points[row] = static_cast<std::uint16_t>(point);
        for (std::size_t j = 0; j < kElements; ++j, point /= kLevels) {
            codes[row * kElements + j] = static_cast<std::int8_t>(point % kLevels);
            values[row * kElements + j] = levels[point % kLevels];
        }
    }

    constexpr Codebook view() const {
        return {static_cast<int>(kElements), static_cast<int>(kLevels), points, codes, values};
    }
};

constexpr Unpacked<256, 8, 3> kIq2Xxs(kIq2XxsRows, kIq2Levels);
constexpr Unpacked<512, 8, 3> kIq2Xs(kIq2XsRows, kIq2Levels);
constexpr Unpacked<1024, 8, 3> kIq2S(kIq2SRows, kIq2Levels);
constexpr Unpacked<256, 4, 8> kIq3Xxs(kIq3XxsRows, kIq3XxsLevels);
constexpr Unpacked<512, 4, 8> kIq3S(kIq3SRows, kIq3SLevels);
constexpr Unpacked<2048, 8, 3> kIq1(kIq1Rows, kIq1Levels);

}  // namespace

const Codebook& codebook_of(Type type) {
    static constexpr Codebook none{}, iq2_xxs = kIq2Xxs.view(), iq2_xs = kIq2Xs.view(),
                                      iq2_s = kIq2S.view(), iq3_xxs = kIq3Xxs.view(),
                                      iq3_s = kIq3S.view(), iq1 = kIq1.view();
    switch (type) {
        case GGML_TYPE_IQ2_XXS:
            return iq2_xxs;
        case GGML_TYPE_IQ2_XS:
            return iq2_xs;
        case GGML_TYPE_IQ2_S:
            return iq2_s;
        case GGML_TYPE_IQ3_XXS:
            return iq3_xxs;
        case GGML_TYPE_IQ3_S:
            return iq3_s;
        case GGML_TYPE_IQ1_S:
        case GGML_TYPE_IQ1_M:
            return iq1;
        default:
            return none;
    }
}

}  // namespace heddle::quant
