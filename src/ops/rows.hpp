#pragma once

#include "ggml/op_list.h"
#include "ops/descriptor.hpp"
#include "ops/tiling.hpp"

namespace heddle::ops {

struct GetRows {
    static constexpr Op id = GGML_OP_GET_ROWS;
    static constexpr std::string_view name = "GET_ROWS";
    static constexpr std::string_view symbol = "get_rows(x)";
    static constexpr std::string_view summary =
        "The rows of x that the I32 tensor `rows` names, as F32 (I32 stays I32).";
    static constexpr std::array sources{"x", "rows"};
    using Params = NoParams;

    static Result<TensorSpec> infer(const Params&, Sources src) {
        const Tensor& x = src[0];
        const Tensor& rows = src[1];
        if (rows.type != GGML_TYPE_I32) return invalid("rows ", describe(rows), " are not I32");
        if (x.ne[2] != rows.ne[1] || x.ne[3] != rows.ne[2] || rows.ne[3] != 1) {
            return invalid("rows ", describe(rows), " do not match the planes of ", describe(x));
        }
        const Type type = x.type == GGML_TYPE_I32 ? GGML_TYPE_I32 : GGML_TYPE_F32;
        return TensorSpec::dense(type, {x.ne[0], rows.ne[0], rows.ne[1], rows.ne[2]});
    }

    /// Only the rows that are asked for are read.
    static Cost cost(const Params&, Sources src, const Tensor& y) {
        const double row = static_cast<double>(row_size(src[0].type, src[0].ne[0]));
        return {.flops = 0,
                .bytes = row * static_cast<double>(row_count(y)) +
                         static_cast<double>(byte_size(y) + byte_size(src[1]))};
    }

    /// Row numbers change in steps.
    static bool carries_gradient(const Tensor&, std::size_t slot) { return slot != 1; }

    static Result<> gradient(Backward& backward, Tensor& node);
};

struct GetRowsBack {
    static constexpr Op id = GGML_OP_GET_ROWS_BACK;
    static constexpr std::string_view name = "GET_ROWS_BACK";
    static constexpr std::string_view symbol = "get_rows_back(x)";
    static constexpr std::string_view summary =
        "Adds row i of x to row rows[i] of a zero matrix: gradient of GET_ROWS.";
    static constexpr std::array sources{"x", "rows"};
    using Params = NoParams;
    struct Args {
        Params params;
        Extents extent;  ///< of the matrix whose rows were taken
    };
    static constexpr unsigned may_be_empty = ~0u;

    static Args recover(const Tensor& node) { return {{}, extents_of(node)}; }

    static Result<TensorSpec> infer(const Args& args, Sources src) {
        const Tensor& x = src[0];
        const Tensor& rows = src[1];
        if (!is_matrix(x)) return invalid(describe(x), " is not a matrix");
        if (!is_vector(rows) || rows.type != GGML_TYPE_I32) {
            return invalid("rows ", describe(rows), " are not a vector of I32");
        }
        const Extents& extent = args.extent;
        if (extent[2] != 1 || extent[3] != 1 || extent[0] != x.ne[0]) {
            return invalid("the result ", describe(extent), " is not a matrix with rows of ",
                           x.ne[0], " elements like ", describe(x));
        }
        return TensorSpec::dense(GGML_TYPE_F32, extent);
    }

    static Cost cost(const Params&, Sources src, const Tensor& y) {
        const double added = static_cast<double>(src[0].ne[0]) * static_cast<double>(src[1].ne[0]);
        return {.flops = added, .bytes = bytes_touched(y)};
    }

    /// Row numbers change in steps.
    static bool carries_gradient(const Tensor&, std::size_t slot) { return slot != 1; }
};

/// The result is the table seen again: computing the node writes the table.
struct SetRows {
    static constexpr Op id = GGML_OP_SET_ROWS;
    static constexpr std::string_view name = "SET_ROWS";
    static constexpr std::string_view symbol = "set_rows(x)";
    static constexpr std::string_view summary =
        "Writes row i of x over row rows[i] of the table, converting to its type.";
    static constexpr std::array sources{"x", "rows", "table"};
    using Params = NoParams;
    static constexpr unsigned may_be_empty = 0b011;  ///< no rows to write

    static Result<TensorSpec> infer(const Params&, Sources src) {
        const Tensor& x = src[0];
        const Tensor& rows = src[1];
        const Tensor& table = src[2];
        if (x.type != GGML_TYPE_F32 && x.type != GGML_TYPE_F16) {
            return invalid(describe(x), " is neither F32 nor F16");
        }
        if (rows.type != GGML_TYPE_I64 && rows.type != GGML_TYPE_I32) {
            return invalid("rows ", describe(rows), " are neither I64 nor I32");
        }
        if (table.ne[0] != x.ne[0] || table.ne[2] != x.ne[2] || table.ne[3] != x.ne[3]) {
            return invalid(describe(x), " does not match the table ", describe(table));
        }
        if (x.ne[1] != rows.ne[0] || !divides(rows.ne[1], x.ne[2]) ||
            !divides(rows.ne[2], x.ne[3]) || rows.ne[3] != 1) {
            return invalid("rows ", describe(rows), " do not match ", describe(x));
        }
        for (const Tensor* tensor : {&x, &table}) {
            if (!has_dense_rows(*tensor))
                return invalid("rows of ", describe(*tensor), " are not dense");
        }
        return TensorSpec::view(table, 2);
    }

    /// Rows are read in the type of x and written in that of the table.
    static Cost cost(const Params&, Sources src, const Tensor& y) {
        const double written =
            static_cast<double>(row_count(src[0])) * static_cast<double>(row_size(y.type, y.ne[0]));
        return {.flops = 0,
                .bytes = static_cast<double>(byte_size(src[0])) + written +
                         static_cast<double>(byte_size(src[1]))};
    }
};

}  // namespace heddle::ops
