#pragma once

#include "ggml/op_list.h"
#include "ggml/ops_layout.h"
#include "ops/rules.hpp"

namespace heddle::ops {

struct Upscale {
    static constexpr Op id = GGML_OP_UPSCALE;
    static constexpr std::string_view name = "UPSCALE";
    static constexpr std::string_view symbol = "upscale(x)";
    static constexpr std::string_view summary =
        "x at another size: dimensions 0 and 1 interpolated as mode says, 2 and 3 by the nearest.";
    static constexpr std::array sources{"x"};

    /// A ggml_scale_mode in the low byte, ggml_scale_flag above it.
    struct Params {
        std::int32_t mode = GGML_SCALE_MODE_NEAREST;
    };
    static constexpr std::array fields{ParamField{"mode", 0}};

    struct Args {
        Params params{};
        Extents extent{};
    };

    static constexpr std::int32_t interpolation_of(std::int32_t mode) { return mode & 0xff; }

    /// `x` at `factor` times its size in dimensions 0 and 1.
    static Result<Args> by_factor(const Tensor& x, int factor, std::int32_t mode) {
        if (factor <= 1) return invalid("upscale: factor ", factor, " is not above 1");
        Extents extent = extents_of(x);
        for (std::size_t d = 0; d < 2; ++d) {
            if (__builtin_mul_overflow(extent[d], std::int64_t{factor}, &extent[d])) {
                return invalid("upscale: ", describe(x), " is too large for factor ", factor);
            }
        }
        return Args{.params = {mode}, .extent = extent};
    }

    static Args recover(const Tensor& node) {
        return {.params = unpack<Params>(node), .extent = extents_of(node)};
    }

    static Result<TensorSpec> infer(const Args& args, Sources src) {
        const std::int32_t mode = args.params.mode;
        const std::int32_t interpolation = interpolation_of(mode);
        if (interpolation >= GGML_SCALE_MODE_COUNT) {
            return invalid("interpolation ", interpolation, " is not below ",
                           static_cast<int>(GGML_SCALE_MODE_COUNT));
        }
        const bool antialias = (mode & GGML_SCALE_FLAG_ANTIALIAS) != 0;
        if (antialias && interpolation != GGML_SCALE_MODE_BILINEAR) {
            return invalid("antialiasing is for bilinear interpolation, not for ", interpolation);
        }
        HEDDLE_TRY(need_type("x", src[0], GGML_TYPE_F32));
        const TensorSpec out = TensorSpec::dense(GGML_TYPE_F32, args.extent);
        if (element_count(src[0]) == 0 && byte_size(out) > 0) {
            return invalid("x ", describe(src[0]), " has no elements to interpolate");
        }
        return out;
    }

    static Cost cost(const Params& params, Sources, const Tensor& out) {
        constexpr std::array<double, GGML_SCALE_MODE_COUNT> flops{0, 8, 50};
        const auto interpolation = static_cast<std::size_t>(interpolation_of(params.mode));
        return cost_per_element(out, interpolation < flops.size() ? flops[interpolation] : 0, out);
    }
};

}  // namespace heddle::ops
