#pragma once

#include <cmath>

#include "ggml/op_list.h"
#include "ops/rules.hpp"

namespace heddle::ops {

struct Arange {
    static constexpr Op id = GGML_OP_ARANGE;
    static constexpr std::string_view name = "ARANGE";
    static constexpr std::string_view symbol = "arange(start, stop, step)";
    static constexpr std::string_view summary =
        "y[i] = start + step * i, for all that lie before stop.";
    static constexpr std::array<const char*, 0> sources{};

    struct Params {
        float start = 0, stop = 0, step = 1;
    };
    static constexpr std::array fields{ParamField{"start", 0, ParamField::Kind::f32},
                                       ParamField{"stop", 1, ParamField::Kind::f32},
                                       ParamField{"step", 2, ParamField::Kind::f32}};

    static Result<TensorSpec> infer(const Params& params, Sources) {
        // Comparisons with NaN are false, so both tests ask for what must hold.
        if (!(params.stop > params.start)) {
            return invalid("stop ", params.stop, " is not above start ", params.start);
        }
        const float steps = std::ceil((params.stop - params.start) / params.step);
        constexpr float limit = 0x1p63f;  // the first float that is no int64
        if (!(steps >= 0 && steps < limit)) {
            return invalid("steps of ", params.step, " do not lead from ", params.start, " to ",
                           params.stop);
        }
        return TensorSpec::dense(GGML_TYPE_F32, {static_cast<std::int64_t>(steps), 1, 1, 1});
    }
};

struct TimestepEmbedding {
    static constexpr Op id = GGML_OP_TIMESTEP_EMBEDDING;
    static constexpr std::string_view name = "TIMESTEP_EMBEDDING";
    static constexpr std::string_view symbol = "timestep_embedding(timesteps, dim, max_period)";
    static constexpr std::string_view summary =
        "A column of dim cosines and sines of each timestep, of periods up to max_period.";
    static constexpr std::array sources{"timesteps"};

    struct Params {
        std::int32_t dim = 0;
        std::int32_t max_period = 0;
    };
    static constexpr std::array fields{ParamField{"dim", 0}, ParamField{"max_period", 1}};

    static Result<TensorSpec> infer(const Params& params, Sources src) {
        HEDDLE_TRY(need_at_least("dim", params.dim, 0));
        return TensorSpec::dense(GGML_TYPE_F32, {params.dim, src[0].ne[0], 1, 1});
    }

    static Cost cost(const Params&, Sources, const Tensor& out) {
        return cost_per_element(out, kTranscendental, out);
    }
};

struct Fill {
    static constexpr Op id = GGML_OP_FILL;
    static constexpr std::string_view name = "FILL";
    static constexpr std::string_view symbol = "fill(x, c)";
    static constexpr std::string_view summary =
        "y = value everywhere; x gives type and extents and is not read.";
    static constexpr std::array sources{"x"};
    static constexpr unsigned may_be_itself = 0b1;

    struct Params {
        float value = 0;
    };
    static constexpr std::array fields{ParamField{"value", 0, ParamField::Kind::f32}};
    static constexpr bool can_run_in_place = true;
    static constexpr bool may_reuse_source = true;

    static Result<TensorSpec> infer(const Params&, Sources src) {
        const Tensor& x = src[0];
        if (x.type != GGML_TYPE_F32 && x.type != GGML_TYPE_F16) {
            return invalid("x ", describe(x), " is not f32 or f16");
        }
        HEDDLE_TRY(need_contiguous("x", x));
        return TensorSpec::like(x);
    }

    static Cost cost(const Params&, Sources, const Tensor& out) {
        return {.flops = 0, .bytes = static_cast<double>(byte_size(out))};
    }
};

}  // namespace heddle::ops
