/// The same graph on two devices, node by node. Part of `heddle/heddle.hpp`.
#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "device.hpp"

namespace heddle::api {

/// How far the results of one node lie apart.
struct Difference {
    std::string node;  ///< its name
    std::string op;
    /// Sum of squared differences over sum of squares, for F32; else 0 or 1: equal or not.
    double error = 0;
};

namespace detail {

inline Result<double> error_between(const ggml_tensor* expected, const ggml_tensor* actual) {
    std::vector<std::byte> a(ggml_nbytes(expected)), b(ggml_nbytes(actual));
    call([&] {
        ggml_backend_tensor_get(expected, a.data(), 0, a.size());
        ggml_backend_tensor_get(actual, b.data(), 0, b.size());
        return 0;
    });
    HEDDLE_TRY(check_said(Errc::device));
    if (expected->type != GGML_TYPE_F32 || !ggml_is_contiguous(expected)) return a == b ? 0.0 : 1.0;
    const auto* x = reinterpret_cast<const float*>(a.data());
    const auto* y = reinterpret_cast<const float*>(b.data());
    double apart = 0, size = 0;
    for (std::size_t i = 0; i < a.size() / sizeof(float); ++i) {
        if (x[i] == y[i] || (x[i] != x[i] && y[i] != y[i])) {  // infinities and NaN meet their like
            size += x[i] == x[i] && x[i] - x[i] == 0 ? double{x[i]} * x[i] : 0;
            continue;
        }
        apart += (double{x[i]} - y[i]) * (double{x[i]} - y[i]);
        size += double{x[i]} * x[i];
    }
    if (!(apart > 0) && apart == apart) return 0.0;
    return size > 0 && apart == apart ? apart / size : std::numeric_limits<double>::infinity();
}

}  // namespace detail

/// Computes each node of `graph` on both streams from what each has computed so far, and measures
/// how far they lie apart. The graph has memory on the device of `first`.
inline Result<std::vector<Difference>> compare(const Stream& first, const Stream& second,
                                               const Graph& graph) {
    struct Found {
        std::vector<Difference> differences;
        Result<> state = ok();
    } found;
    const auto visit = [](int, ggml_tensor* a, ggml_tensor* b, void* data) {
        auto& found = *static_cast<Found*>(data);
        auto error = detail::error_between(a, b);
        if (!error) {
            found.state = std::move(error).error();
            return false;
        }
        found.differences.push_back({ggml_get_name(a), ggml_op_desc(a), *error});
        return true;
    };
    const bool done = detail::call([&] {
        return ggml_backend_compare_graph_backend(first.c(), second.c(), graph.c(), visit, &found,
                                                  nullptr, 0);
    });
    HEDDLE_TRY(found.state);
    if (!done) return detail::last_failure(Errc::device, "the graph cannot be compared");
    return std::move(found.differences);
}

}  // namespace heddle::api
