#include "ops/sort.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <utility>

#include "backends/cpu/kernels/elementwise/spans.hpp"

namespace heddle::cpu {
namespace {

/// What is sorted: the order of a value in the upper half, its index in the lower. Equal values
/// keep the order of their indices, and the comparison is good for NaN, too, which comes last.
using Key = std::uint64_t;

std::uint32_t rising_order(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value == 0 ? 0.0f : value);  // -0 equals 0
    if ((bits & 0x7fffffffu) > 0x7f800000u) return 0xffffffffu;
    return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

std::uint32_t falling_order(float value) {
    return value != value ? 0xffffffffu : ~rising_order(value);
}

std::int32_t index_of(Key key) { return static_cast<std::int32_t>(key & 0xffffffffu); }

void make_keys(const float* x, std::int64_t n, bool falling, Key* keys) {
    for (std::int64_t i = 0; i < n; ++i) {
        const std::uint32_t order = falling ? falling_order(x[i]) : rising_order(x[i]);
        keys[i] = Key{order} << 32 | static_cast<Key>(i);
    }
}

/// Sorts by the upper halves, a byte at a time from the lowest: four passes there and back again.
/// Indices rise already, and each pass keeps the order of equals.
void radix_sort(Key* keys, Key* other, std::int64_t n) {
    constexpr int digits = 4, first_bit = 32;
    std::array<std::array<std::int64_t, 256>, digits> places{};
    for (std::int64_t i = 0; i < n; ++i) {
        for (std::size_t d = 0; d < digits; ++d) ++places[d][keys[i] >> (first_bit + 8 * d) & 255];
    }
    for (std::size_t d = 0; d < digits; ++d) {
        std::int64_t next = 0;
        for (std::int64_t& place : places[d]) next += std::exchange(place, next);
        for (std::int64_t i = 0; i < n; ++i) {
            other[places[d][keys[i] >> (first_bit + 8 * d) & 255]++] = keys[i];
        }
        std::swap(keys, other);
    }
}

/// From this length on, counting bytes beats comparing.
constexpr std::int64_t kRadixLength = 1024;

void sort_keys(Key* keys, Key* other, std::int64_t n) {
    if (n >= kRadixLength) {
        radix_sort(keys, other, n);
    } else {
        std::sort(keys, keys + n);
    }
}

std::string_view objection_to_rows(const Tensor& node) {
    const Tensor& x = *node.src[0];
    if (x.type != GGML_TYPE_F32) return "x is not f32";
    if (node.type != GGML_TYPE_I32) return "the result is not i32";
    if (x.ne[1] != node.ne[1] || x.ne[2] != node.ne[2] || x.ne[3] != node.ne[3]) {
        return "the result does not have the rows of x";
    }
    return has_packed_rows(x) && has_packed_rows(node) ? "" : "rows are not dense";
}

/// Each task has room for so many keys.
Demand demand_keys(const Tensor& node, int threads, std::int64_t keys) {
    const Tensor& x = *node.src[0];
    const double flops = 20.0 * static_cast<double>(element_count(x));
    const int tasks = worthwhile_tasks(0, flops, row_count(x), threads);
    return {
        .tasks = tasks,
        .scratch = static_cast<std::size_t>(tasks) * static_cast<std::size_t>(keys) * sizeof(Key)};
}

Key* keys_of(const Task& task, std::int64_t keys) {
    return reinterpret_cast<Key*>(task.scratch) + task.index * keys;
}

// ---- ARGSORT ----

std::int64_t argsort_keys(const Tensor& x) {
    return x.ne[0] >= kRadixLength ? 2 * x.ne[0] : x.ne[0];
}

std::string_view argsort_objection(const Tensor& node) {
    const std::int32_t order = unpack<ops::Argsort::Params>(node).order;
    if (order != GGML_SORT_ORDER_ASC && order != GGML_SORT_ORDER_DESC)
        return "there is no such order";
    if (node.ne[0] != node.src[0]->ne[0]) return "the result does not have the extents of x";
    return objection_to_rows(node);
}

void run_argsort(const Tensor& node, const Task& task) {
    const bool falling = unpack<ops::Argsort::Params>(node).order == GGML_SORT_ORDER_DESC;
    const std::int64_t n = node.ne[0];
    Key* keys = keys_of(task, argsort_keys(*node.src[0]));
    for_rows(node, task.share(row_count(node)), [&](const Row& row) {
        make_keys(row_at<const float>(*node.src[0], row), n, falling, keys);
        sort_keys(keys, keys + n, n);
        std::transform(keys, keys + n, row_at<std::int32_t>(node, row), index_of);
    });
}

Demand argsort_demand(const Tensor& node, int threads) {
    return demand_keys(node, threads, argsort_keys(*node.src[0]));
}

// ---- TOP_K ----

std::string_view top_k_objection(const Tensor& node) {
    if (node.ne[0] > node.src[0]->ne[0]) return "rows of x have fewer than k elements";
    return objection_to_rows(node);
}

/// Room for k keys and as many again, so that sorting out happens once in many elements.
std::int64_t top_k_keys(const Tensor& node) {
    constexpr std::int64_t least = 256;
    return std::min(node.src[0]->ne[0], 2 * node.ne[0] + least);
}

/// Leaves the keys of the k largest of `n` values at the front of `keys`, in falling order of
/// values.
void keep_largest(const float* x, std::int64_t n, std::int64_t k, Key* keys, std::int64_t room) {
    std::int64_t count = 0;
    Key limit = ~Key{0};  // keys from here on are not among the k largest
    float least = -std::numeric_limits<float>::infinity();  // nor are values below this
    for (std::int64_t i = 0; i < n; ++i) {
        if (x[i] < least) continue;
        const Key key = Key{falling_order(x[i])} << 32 | static_cast<Key>(i);
        if (key >= limit) continue;
        if (count == room) {
            std::nth_element(keys, keys + k - 1, keys + count);
            count = k;
            limit = keys[k - 1];
            least = x[index_of(limit)];
            if (key >= limit) continue;
        }
        keys[count++] = key;
    }
    std::partial_sort(keys, keys + k, keys + count);
}

/// The largest first, although any order would do.
void run_top_k(const Tensor& node, const Task& task) {
    const std::int64_t n = node.src[0]->ne[0], k = node.ne[0], room = top_k_keys(node);
    Key* keys = keys_of(task, room);
    for_rows(node, task.share(row_count(node)), [&](const Row& row) {
        keep_largest(row_at<const float>(*node.src[0], row), n, k, keys, room);
        std::transform(keys, keys + k, row_at<std::int32_t>(node, row), index_of);
    });
}

Demand top_k_demand(const Tensor& node, int threads) {
    return demand_keys(node, threads, top_k_keys(node));
}

}  // namespace

extern const Kernel kArgsort{.name = "argsort",
                             .op = GGML_OP_ARGSORT,
                             .objection = argsort_objection,
                             .run = run_argsort,
                             .demand = argsort_demand};
extern const Kernel kTopK{.name = "top_k",
                          .op = GGML_OP_TOP_K,
                          .objection = top_k_objection,
                          .run = run_top_k,
                          .demand = top_k_demand};

}  // namespace heddle::cpu
