#pragma once

#include "backends/cuda/formats/bytes.cuh"
#include "quant/codebook_texts.hpp"

/// The codebooks of the grid formats as kernels read them: a row is a word, element 0 in its lowest
/// byte. They are unpacked by the compiler from the texts that `quant` has.
namespace heddle::cuda {

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

// Host code cannot read a device table, nor device code a host table, so each is there twice.

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

static __device__ constexpr auto kIq2XxsGridOnDevice = kIq2XxsGrid;
static __device__ constexpr auto kIq2XsGridOnDevice = kIq2XsGrid;
static __device__ constexpr auto kIq2SGridOnDevice = kIq2SGrid;
static __device__ constexpr auto kIq1GridOnDevice = kIq1Grid;
static __device__ constexpr auto kIq3XxsGridOnDevice = kIq3XxsGrid;
static __device__ constexpr auto kIq3SGridOnDevice = kIq3SGrid;

#ifdef __CUDA_ARCH__
#define HEDDLE_GRID_ROW(table, index) table##OnDevice.row[index]
#else
#define HEDDLE_GRID_ROW(table, index) table.row[index]
#endif

HEDDLE_HD std::uint64_t iq2_xxs_row(unsigned i) { return HEDDLE_GRID_ROW(kIq2XxsGrid, i); }
HEDDLE_HD std::uint64_t iq2_xs_row(unsigned i) { return HEDDLE_GRID_ROW(kIq2XsGrid, i); }
HEDDLE_HD std::uint64_t iq2_s_row(unsigned i) { return HEDDLE_GRID_ROW(kIq2SGrid, i); }
HEDDLE_HD std::uint64_t iq1_row(unsigned i) { return HEDDLE_GRID_ROW(kIq1Grid, i); }
HEDDLE_HD std::uint32_t iq3_xxs_row(unsigned i) { return HEDDLE_GRID_ROW(kIq3XxsGrid, i); }
HEDDLE_HD std::uint32_t iq3_s_row(unsigned i) { return HEDDLE_GRID_ROW(kIq3SGrid, i); }

#undef HEDDLE_GRID_ROW

}  // namespace heddle::cuda
