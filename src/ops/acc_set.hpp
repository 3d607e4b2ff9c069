#pragma once

#include <cstddef>

#include "ggml/op_list.h"
#include "ops/rules.hpp"

namespace heddle::ops {

/// A region of a: where in it the elements of b stand.
///
/// The node keeps 32 bits of each number. Strides of dimensions of extent 1 mean nothing and may be
/// larger, so they are cut and not refused; what is kept must be inside a.
struct Region {
    std::size_t nb1 = 0, nb2 = 0, nb3 = 0;  ///< bytes from one element of b to the next
    std::size_t offset = 0;                 ///< bytes from the start of a
};

/// Writes b into a region of a copy of a, or of a itself.
struct RegionOp {
    static constexpr std::array sources{"a", "b"};

    struct Params {
        std::int32_t nb1 = 0, nb2 = 0, nb3 = 0, offset = 0, in_place = 0;
    };
    static constexpr std::array fields{ParamField{"nb1", 0}, ParamField{"nb2", 1},
                                       ParamField{"nb3", 2}, ParamField{"offset", 3},
                                       ParamField{"in_place", 4}};
    static constexpr bool can_run_in_place = true;
    static constexpr unsigned may_be_empty = 0b10;  ///< nothing is written to a region of nothing

    struct Args {
        Params params{};
        std::size_t offset = 0;  ///< before it was cut
    };

    /// `in_place` must say how the node is built: it tells kernels that a need not be copied first.
    static Args at(const Region& region, bool in_place) {
        const auto word = [](std::size_t bytes) { return static_cast<std::int32_t>(bytes); };
        return {.params = {word(region.nb1), word(region.nb2), word(region.nb3),
                           word(region.offset), in_place ? 1 : 0},
                .offset = region.offset};
    }

    static Args recover(const Tensor& node) {
        const auto params = unpack<Params>(node);
        return {.params = params, .offset = static_cast<std::size_t>(params.offset)};
    }

    static Result<> check_counts(Sources src) {
        if (element_count(src[1]) <= element_count(src[0])) return ok();
        return invalid("b ", describe(src[1]), " has more elements than a ", describe(src[0]));
    }

    /// Whether the region of the elements of `b` is made of whole elements of a tensor of `size`
    /// bytes.
    static bool is_inside(const Params& params, const Tensor& b, std::size_t size) {
        if (is_empty(b)) return true;
        const auto element = static_cast<std::int64_t>(size_of(b.type));
        const auto limit = static_cast<std::int64_t>(size);
        const std::int32_t strides[] = {params.nb1, params.nb2, params.nb3};
        std::int64_t end = params.offset + static_cast<std::int64_t>(row_size(b.type, b.ne[0]));
        if (params.offset < 0 || params.offset % element != 0 || end > limit) return false;
        for (int d = 1; d < kMaxDims; ++d) {
            const std::int64_t stride = strides[d - 1];
            if (b.ne[d] == 1 || stride == 0) continue;
            if (stride < 0 || stride % element != 0 || b.ne[d] - 1 > (limit - end) / stride)
                return false;
            end += (b.ne[d] - 1) * stride;
        }
        return true;
    }

    static Result<> check_region(const Params& params, Sources src) {
        if (is_inside(params, src[1], byte_size(TensorSpec::like(src[0])))) return ok();
        return invalid("the region of b ", describe(src[1]), " at offset ", params.offset,
                       " with strides of ", params.nb1, ", ", params.nb2, " and ", params.nb3,
                       " bytes is not inside a ", describe(src[0]));
    }

    /// b is read, and its region written over once more after the copy.
    static double bytes_moved(Sources src, const Tensor& out) {
        return bytes_touched(out) + static_cast<double>(byte_size(src[1]));
    }
};

struct Acc : RegionOp {
    static constexpr Op id = GGML_OP_ACC;
    static constexpr std::string_view name = "ACC";
    static constexpr std::string_view symbol = "view(x,nb,offset)+=y->x";
    static constexpr std::string_view summary = "y = a with b added to a region of it.";

    static Result<TensorSpec> infer(const Args& args, Sources src) {
        HEDDLE_TRY(check_counts(src));
        HEDDLE_TRY(need_contiguous("a", src[0]));
        HEDDLE_TRY(need_type("a", src[0], GGML_TYPE_F32));
        HEDDLE_TRY(need_type("b", src[1], GGML_TYPE_F32));
        HEDDLE_TRY(check_region(args.params, src));
        return TensorSpec::like(src[0]);
    }

    static Cost cost(const Params&, Sources src, const Tensor& out) {
        return {.flops = count_of(src[1]), .bytes = bytes_moved(src, out)};
    }

    static Result<> gradient(Backward& backward, Tensor& node);
};

struct Set : RegionOp {
    static constexpr Op id = GGML_OP_SET;
    static constexpr std::string_view name = "SET";
    static constexpr std::string_view symbol = "y-\\>view(x)";
    static constexpr std::string_view summary = "y = a with a region of it replaced by b.";

    static constexpr std::size_t kOffsetLimit = std::size_t{1} << 30;

    static Result<TensorSpec> infer(const Args& args, Sources src) {
        HEDDLE_TRY(check_counts(src));
        if (args.offset >= kOffsetLimit) {
            return invalid("offset ", args.offset, " is not below ", kOffsetLimit);
        }
        HEDDLE_TRY(check_region(args.params, src));
        return TensorSpec::like(src[0]);
    }

    static Cost cost(const Params&, Sources src, const Tensor& out) {
        return {.flops = 0, .bytes = bytes_moved(src, out)};
    }

    static Result<> gradient(Backward& backward, Tensor& node);
};

}  // namespace heddle::ops
