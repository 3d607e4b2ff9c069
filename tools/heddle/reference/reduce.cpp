#include <algorithm>
#include <cmath>
#include <numeric>

#include "ggml/op_list.h"
#include "reference/reference.hpp"

namespace heddle::tool::reference {
namespace {

double sum_of(std::span<const double> row) { return std::accumulate(row.begin(), row.end(), 0.0); }

double squares_of(std::span<const double> row) {
    return std::inner_product(row.begin(), row.end(), row.begin(), 0.0);
}

Values sum(const Operands& in) { return Values(in.extent, sum_of(in[0].data())); }

Values sum_rows(const Operands& in) {
    Values result(in.extent);
    for (std::int64_t r = 0; r < in[0].rows(); ++r) result.row(r)[0] = sum_of(in[0].row(r));
    return result;
}

Values mean(const Operands& in) {
    Values result = sum_rows(in);
    for (double& value : result.data()) value /= double(in[0].extent(0));
    return result;
}

Values cumsum(const Operands& in) {
    Values result = in[0];
    for (std::int64_t r = 0; r < result.rows(); ++r) {
        const auto row = result.row(r);
        std::partial_sum(row.begin(), row.end(), row.begin());
    }
    return result;
}

Values argmax(const Operands& in) {
    Values result(in.extent);
    for (std::int64_t r = 0; r < in[0].rows(); ++r) {
        const auto row = in[0].row(r);
        result(r) = double(std::max_element(row.begin(), row.end()) - row.begin());
    }
    return result;
}

Values count_equal(const Operands& in) {
    const auto &a = in[0].data(), &b = in[1].data();
    return Values(in.extent, std::inner_product(a.begin(), a.end(), b.begin(), 0.0, std::plus(),
                                                [](double x, double y) { return x == y; }));
}

// ---- normalisation -----------------------------------------------------------------------------

/// Subtracts the mean and divides by the standard deviation of a group of elements.
void normalise(std::span<double> group, double epsilon) {
    const double n = double(group.size());
    const double mean = sum_of(group) / n;
    for (double& value : group) value -= mean;
    const double deviation = std::sqrt(squares_of(group) / n + epsilon);
    for (double& value : group) value /= deviation;
}

Values norm(const Operands& in) {
    Values result = in[0];
    for (std::int64_t r = 0; r < result.rows(); ++r) normalise(result.row(r), in.real(0));
    return result;
}

Values rms_norm(const Operands& in) {
    Values result = in[0];
    for (std::int64_t r = 0; r < result.rows(); ++r) {
        const auto row = result.row(r);
        const double size = std::sqrt(squares_of(row) / double(row.size()) + in.real(0));
        for (double& value : row) value /= size;
    }
    return result;
}

/// A group is a run of channels (dimension 2) of one image.
Values group_norm(const Operands& in) {
    Values result = in[0];
    const std::int64_t groups = in.integer(0), channels = result.extent(2);
    const std::int64_t per_group = (channels + groups - 1) / groups;
    const std::int64_t plane = result.extent(0) * result.extent(1);
    for (std::int64_t i3 = 0; i3 < result.extent(3); ++i3) {
        for (std::int64_t first = 0; first < channels; first += per_group) {
            const std::int64_t count = std::min(per_group, channels - first);
            normalise({&result(0, 0, first, i3), std::size_t(plane * count)}, in.real(1));
        }
    }
    return result;
}

/// The epsilon is the least length divided by; it is not added.
Values l2_norm(const Operands& in) {
    Values result = in[0];
    for (std::int64_t r = 0; r < result.rows(); ++r) {
        const double length = std::max(std::sqrt(squares_of(result.row(r))), double{in.real(0)});
        for (double& value : result.row(r)) value /= length;
    }
    return result;
}

// ---- order -------------------------------------------------------------------------------------

/// The indices that sort each row; results that are shorter get the first of them.
Values sorted_indices(const Operands& in, bool is_descending) {
    Values result(in.extent);
    std::vector<std::int64_t> order(std::size_t(in[0].extent(0)));
    for (std::int64_t r = 0; r < in[0].rows(); ++r) {
        const auto row = in[0].row(r);
        std::iota(order.begin(), order.end(), 0);
        std::ranges::stable_sort(order, [&](std::int64_t a, std::int64_t b) {
            const double x = row[std::size_t(a)], y = row[std::size_t(b)];
            return is_descending ? x > y : x < y;
        });
        std::copy_n(order.begin(), in.extent[0], result.row(r).begin());
    }
    return result;
}

Values argsort(const Operands& in) { return sorted_indices(in, in.integer(0) != 0); }
Values top_k(const Operands& in) { return sorted_indices(in, true); }

constexpr Definition kDefinitions[] = {
    {GGML_OP_SUM, sum},         {GGML_OP_SUM_ROWS, sum_rows}, {GGML_OP_MEAN, mean},
    {GGML_OP_CUMSUM, cumsum},   {GGML_OP_ARGMAX, argmax},     {GGML_OP_COUNT_EQUAL, count_equal},
    {GGML_OP_NORM, norm},       {GGML_OP_RMS_NORM, rms_norm}, {GGML_OP_GROUP_NORM, group_norm},
    {GGML_OP_L2_NORM, l2_norm}, {GGML_OP_ARGSORT, argsort},   {GGML_OP_TOP_K, top_k},
};

}  // namespace

std::span<const Definition> reduce_definitions() { return kDefinitions; }

}  // namespace heddle::tool::reference
