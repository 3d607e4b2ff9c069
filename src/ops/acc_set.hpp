#pragma once

#include <cstddef>

#include "ops/rules.hpp"

namespace heddle::ops {

/// A region of a: where in it the elements of b stand.
///
/// The node keeps 32 bits of each number. Strides of dimensions of extent 1 mean nothing and may be
/// larger, so they are cut and not refused; kernels check the region they address.
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

    static Result<TensorSpec> infer(const Args&, Sources src) {
        HEDDLE_TRY(check_counts(src));
        HEDDLE_TRY(need_contiguous("a", src[0]));
        HEDDLE_TRY(need_type("a", src[0], GGML_TYPE_F32));
        HEDDLE_TRY(need_type("b", src[1], GGML_TYPE_F32));
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
        return TensorSpec::like(src[0]);
    }

    static Cost cost(const Params&, Sources src, const Tensor& out) {
        return {.flops = 0, .bytes = bytes_moved(src, out)};
    }

    static Result<> gradient(Backward& backward, Tensor& node);
};

}  // namespace heddle::ops
