#include "quant/grid_encode.hpp"

#include "ggml-common.h"
#include "quant/grid_blocks.hpp"
#include "quant/grid_search.hpp"
#include "quant/search.hpp"

namespace heddle::quant {
namespace {

using Magnitudes = std::span<const float>;

/// What the searches share unless the format says otherwise.
struct Grid : GridDefaults {
    static constexpr int max_code = 15;
    static constexpr int trials = 9;
    static constexpr Refit refit = Refit::off_grid;

    static float reference(Magnitudes, Magnitudes, float most) { return most; }
};

struct Iq2 : Grid {
    static constexpr int group = 8, levels = 3;
    static constexpr float step = 0.1f;
};

struct Iq2Xxs : Iq2 {
    using Block = block_iq2_xxs;
    using Search = GridSearch<Iq2Xxs>;
    static constexpr Type type = GGML_TYPE_IQ2_XXS;
    static constexpr int sub_block = 32, trials = 6;
    static constexpr bool even_signs = true;
    static constexpr float nothing = kNothing, variance = 1;
    static constexpr Refit refit = Refit::always;

    static float reference(Magnitudes u, Magnitudes w, float) {
        std::array<std::uint8_t, sub_block> codes;
        return 3 * search_positive(u, w, 4, codes);
    }

    /// Four row numbers in one word; four times seven signs and the scale in the next.
    static void pack(const GridChoice& choice, unsigned code, std::size_t part, Block& block) {
        std::uint32_t words[2] = {0, std::uint32_t{code} << 28};
        for (std::size_t g = 0; g < 4; ++g) {
            words[0] |= std::uint32_t{choice.rows[g]} << (8 * g);
            words[1] |= (choice.signs[g] & 127u) << (7 * g);
        }
        std::memcpy(block.qs + 4 * part, words, sizeof words);
    }
};

struct Iq2Xs : Iq2 {
    using Block = block_iq2_xs;
    using Search = GridSearch<Iq2Xs>;
    static constexpr Type type = GGML_TYPE_IQ2_XS;
    static constexpr int sub_block = 16;
    static constexpr bool even_signs = true;
    static constexpr float nothing = kNothing, variance = 1;

    static void pack(const GridChoice& choice, unsigned code, std::size_t part, Block& block) {
        for (std::size_t g = 0; g < 2; ++g) {
            block.qs[2 * part + g] =
                static_cast<std::uint16_t>(choice.rows[g] | (choice.signs[g] & 127u) << 9);
        }
        block.scales[part / 2] |= static_cast<std::uint8_t>(code << 4 * (part % 2));
    }
};

struct Iq2S : Iq2 {
    using Block = block_iq2_s;
    using Search = GridSearch<Iq2S>;
    static constexpr Type type = GGML_TYPE_IQ2_S;
    static constexpr int sub_block = 16;
    static constexpr bool even_signs = false;
    static constexpr float nothing = 1e-8f, fudge = 0.9875f;

    static float plain_weight(float x, float variance) { return 0.25f * variance + x * x; }

    static void pack(const GridChoice& choice, unsigned code, std::size_t part, Block& block) {
        for (std::size_t g = 0; g < 2; ++g) {
            const std::size_t i = 2 * part + g;
            block.qs[i] = static_cast<std::uint8_t>(choice.rows[g]);
            block.qs[QK_K / 8 + i] = choice.signs[g];
            block.qh[i / 4] |= static_cast<std::uint8_t>(choice.rows[g] >> 8 << 2 * (i % 4));
        }
        block.scales[part / 2] |= static_cast<std::uint8_t>(code << 4 * (part % 2));
    }
};

struct Iq3 : Grid {
    static constexpr int sub_block = 32, group = 4, levels = 8;
    static constexpr float step = 0.2f;

    static float plain_weight(float x, float) { return x * x; }
};

struct Iq3Xxs : Iq3 {
    using Block = block_iq3_xxs;
    using Search = GridSearch<Iq3Xxs>;
    static constexpr Type type = GGML_TYPE_IQ3_XXS;
    static constexpr int trials = 15;
    static constexpr bool even_signs = true;
    static constexpr float nothing = 1e-8f, fudge = 1.0125f;

    static void pack(const GridChoice& choice, unsigned code, std::size_t part, Block& block) {
        for (std::size_t g = 0; g < 8; ++g) {
            block.qs[8 * part + g] = static_cast<std::uint8_t>(choice.rows[g]);
        }
        std::uint32_t word = std::uint32_t{code} << 28;
        for (std::size_t g = 0; g < 4; ++g) word |= (choice.signs[g] & 127u) << (7 * g);
        std::memcpy(block.qs + QK_K / 4 + 4 * part, &word, sizeof word);
    }
};

struct Iq3S : Iq3 {
    using Block = block_iq3_s;
    using Search = GridSearch<Iq3S>;
    static constexpr Type type = GGML_TYPE_IQ3_S;
    static constexpr bool even_signs = false;
    static constexpr float nothing = std::numeric_limits<float>::denorm_min(), fudge = 1.033f;
    static constexpr Refit refit = Refit::all_if_off_grid;

    static void pack(const GridChoice& choice, unsigned code, std::size_t part, Block& block) {
        for (std::size_t g = 0; g < 8; ++g) {
            block.qs[8 * part + g] = static_cast<std::uint8_t>(choice.rows[g]);
            block.qh[part] |= static_cast<std::uint8_t>(choice.rows[g] >> 8 << g);
        }
        std::memcpy(block.signs + 4 * part, choice.signs.data(), 4);
        block.scales[part / 2] |= static_cast<std::uint8_t>(code << 4 * (part % 2));
    }
};

}  // namespace

void encode_iq2_xxs(const float* row, void* blocks, std::int64_t n, const float* importance) {
    encode_grid_row<Iq2Xxs>(row, blocks, n, importance);
}

void encode_iq2_xs(const float* row, void* blocks, std::int64_t n, const float* importance) {
    encode_grid_row<Iq2Xs>(row, blocks, n, importance);
}

void encode_iq2_s(const float* row, void* blocks, std::int64_t n, const float* importance) {
    encode_grid_row<Iq2S>(row, blocks, n, importance);
}

void encode_iq3_xxs(const float* row, void* blocks, std::int64_t n, const float* importance) {
    encode_grid_row<Iq3Xxs>(row, blocks, n, importance);
}

void encode_iq3_s(const float* row, void* blocks, std::int64_t n, const float* importance) {
    encode_grid_row<Iq3S>(row, blocks, n, importance);
}

}  // namespace heddle::quant
