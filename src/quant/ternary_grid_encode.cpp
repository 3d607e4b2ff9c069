#include "ggml-common.h"
#include "quant/grid_blocks.hpp"
#include "quant/grid_encode.hpp"
#include "quant/ternary_grid_search.hpp"

namespace heddle::quant {
namespace {

struct Iq1S : GridDefaults {
    using Block = block_iq1_s;
    using Search = TernarySearch<Iq1S>;
    static constexpr Type type = GGML_TYPE_IQ1_S;
    static constexpr int sub_block = 32, shift_size = 32, max_code = 7;
    static constexpr float nothing = 1e-12f, fudge = 1.125f;

    static void pack(const TernaryChoice& choice, unsigned code, std::size_t part, Block& block) {
        unsigned head = code << 12 | (choice.down[0] ? 0x8000u : 0u);
        for (std::size_t g = 0; g < 4; ++g) {
            const unsigned row = choice.rows[g];
            block.qs[4 * part + g] = static_cast<std::uint8_t>(row);
            head |= row >> 8 << (3 * g);
        }
        block.qh[part] = static_cast<std::uint16_t>(head);
    }
};

struct Iq1M : GridDefaults {
    using Block = block_iq1_m;
    using Search = TernarySearch<Iq1M>;
    static constexpr Type type = GGML_TYPE_IQ1_M;
    static constexpr int sub_block = 16, shift_size = 8, max_code = 7;
    static constexpr float nothing = 1e-7f, fudge = 1.1125f;

    static float plain_weight(float x, float) { return x * x; }

    static void pack(const TernaryChoice& choice, unsigned code, std::size_t part, Block& block) {
        for (std::size_t g = 0; g < 2; ++g) {
            const unsigned row = choice.rows[g];
            const unsigned head = row >> 8 | (choice.down[g] ? 8u : 0u);
            block.qs[2 * part + g] = static_cast<std::uint8_t>(row);
            block.qh[part] |= static_cast<std::uint8_t>(head << (4 * g));
        }
        // Four scales of three bits lie in one 16-bit word.
        const unsigned field = code << (3 * (part % 4));
        block.scales[part / 4 * 2] |= static_cast<std::uint8_t>(field);
        block.scales[part / 4 * 2 + 1] |= static_cast<std::uint8_t>(field >> 8);
    }

    /// Fits d once more, now that every code is known, and spreads it over the top nibbles.
    static void pack_scale(const GridPlan<Iq1M>& plan, const float* x, const GridWeights& weights,
                           Block& block) {
        const Codebook& book = codebook_of(type);
        GridFit fit;
        for (std::size_t i = 0; i < kGridBlock; ++i) {
            const TernaryChoice& choice = plan.choices[i / sub_block];
            const std::size_t g = i / 8 % 2;
            const float level = ternary_level(book.codes_of(choice.rows[g])[i % 8], choice.down[g]);
            fit.add(weights[i], x[i],
                    level * static_cast<float>(2 * plan.codes[i / sub_block] + 1));
        }
        const float d = fit.square > 0 ? fit.scale() : plan.d;
        const unsigned bits = f32_to_f16(d * fudge);
        for (std::size_t i = 0; i < 4; ++i) {
            block.scales[2 * i + 1] |= static_cast<std::uint8_t>((bits >> (4 * i) & 15u) << 4);
        }
    }
};

}  // namespace

void encode_iq1_s(const float* row, void* blocks, std::int64_t n, const float* importance) {
    encode_grid_row<Iq1S>(row, blocks, n, importance);
}

void encode_iq1_m(const float* row, void* blocks, std::int64_t n, const float* importance) {
    encode_grid_row<Iq1M>(row, blocks, n, importance);
}

}  // namespace heddle::quant
