#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "quant/codebook_texts.hpp"

/// The codebooks of the grid formats as kernels read them: a row is a word, element 0 in its lowest
/// byte. They are unpacked by the compiler from the texts that `quant` has.
namespace heddle::gpu {

template <class Word, int kRows>
struct GridRows {
    Word row[kRows];
};

template <class Word, int kRows, std::size_t kLevels>
constexpr GridRows<Word, kRows> unpack_grid(std::string_view members,
                                            const std::array<std::int8_t, kLevels>& levels) {
    GridRows<Word, kRows> grid{};
    int rows = 0;
    for (std::size_t i = 0; i < members.size(); ++i) {
        const char c = members[i];
        const unsigned digit = static_cast<unsigned>(c <= '9' ? c - '0' : c - 'a' + 10);
        for (unsigned bit = 0; bit < 4; ++bit) {
            if ((digit >> bit & 1u) == 0) continue;
            Word word = 0;
            std::size_t point = 4 * i + bit;
            for (std::size_t j = 0; j < sizeof(Word); ++j, point /= kLevels)
                word |= static_cast<Word>(static_cast<std::uint8_t>(levels[point % kLevels]))
                        << 8 * j;
            grid.row[rows++] = word;
        }
    }
    return grid;
}

inline constexpr auto kIq2XxsGrid =
    unpack_grid<std::uint64_t, 256>(quant::kIq2XxsRows, quant::kIq2Levels);
inline constexpr auto kIq2XsGrid =
    unpack_grid<std::uint64_t, 512>(quant::kIq2XsRows, quant::kIq2Levels);
inline constexpr auto kIq2SGrid =
    unpack_grid<std::uint64_t, 1024>(quant::kIq2SRows, quant::kIq2Levels);
inline constexpr auto kIq1Grid =
    unpack_grid<std::uint64_t, 2048>(quant::kIq1Rows, quant::kIq1Levels);
inline constexpr auto kIq3XxsGrid =
    unpack_grid<std::uint32_t, 256>(quant::kIq3XxsRows, quant::kIq3XxsLevels);
inline constexpr auto kIq3SGrid =
    unpack_grid<std::uint32_t, 512>(quant::kIq3SRows, quant::kIq3SLevels);

/// All of them one after the other, for devices that read them from a buffer. Shaders know the
/// offsets.
struct Codebooks {
    GridRows<std::uint64_t, 256> iq2_xxs;
    GridRows<std::uint64_t, 512> iq2_xs;
    GridRows<std::uint64_t, 1024> iq2_s;
    GridRows<std::uint64_t, 2048> iq1;
    GridRows<std::uint32_t, 256> iq3_xxs;
    GridRows<std::uint32_t, 512> iq3_s;
};
static_assert(sizeof(Codebooks) == 33792);

inline constexpr Codebooks kCodebooks{kIq2XxsGrid, kIq2XsGrid,  kIq2SGrid,
                                      kIq1Grid,    kIq3XxsGrid, kIq3SGrid};

}  // namespace heddle::gpu
