// What checking a node costs when a graph is planned: each node of a transformer's graph, quantised
// weights and a cache with views among the operands, and the nodes of all golden cases, in which
// hardly any is like the one before. Medians of this thread's processor time.
//
//     check_bench [directory with golden cases]

#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/graph.hpp"
#include "core/prefetch.hpp"
#include "ggml-cpp.h"
#include "golden/build_case.hpp"
#include "ops/check.hpp"

namespace {

using namespace heddle;

constexpr std::int64_t kWidth = 512, kHeads = 8, kHead = kWidth / kHeads, kHidden = 1536;
constexpr std::int64_t kCached = 256;

class Transformer {
public:
    explicit Transformer(int layers)
        : context_(ggml_init(
              {.mem_size = std::size_t{64} << 20, .mem_buffer = nullptr, .no_alloc = true})),
          graph_(ggml_new_graph_custom(context_.get(), 1 << 15, false)) {
        position_ = ggml_new_tensor_1d(c(), GGML_TYPE_I32, 1);
        place_ = ggml_new_tensor_1d(c(), GGML_TYPE_I64, 1);
        mask_ = ggml_new_tensor_2d(c(), GGML_TYPE_F16, kCached, 1);
        ggml_tensor* x = ggml_get_rows(c(), weight(kWidth, 32000), position_);
        for (int i = 0; i < layers; ++i) x = network(attention(x));
        x = ggml_mul_mat(c(), weight(kWidth, 32000), normed(x));
        ggml_build_forward_expand(graph_, x);
    }

    const Graph& graph() const { return *graph_; }

private:
    ggml_context* c() const { return context_.get(); }
    ggml_tensor* weight(std::int64_t columns, std::int64_t rows) {
        return ggml_new_tensor_2d(c(), GGML_TYPE_Q4_0, columns, rows);
    }
    ggml_tensor* normed(ggml_tensor* x) {
        return ggml_mul(c(), ggml_rms_norm(c(), x, 1e-5F),
                        ggml_new_tensor_1d(c(), GGML_TYPE_F32, kWidth));
    }
    ggml_tensor* rotated(ggml_tensor* x) {
        return ggml_rope_ext(c(), ggml_reshape_3d(c(), x, kHead, kHeads, 1), position_, nullptr,
                             kHead, 0, 0, 10000, 1, 0, 1, 0, 0);
    }
    ggml_tensor* heads_of(ggml_tensor* cache) {
        const std::size_t row = ggml_row_size(GGML_TYPE_F16, kWidth);
        return ggml_permute(c(),
                            ggml_view_3d(c(), cache, kHead, kHeads, kCached, row / kHeads, row, 0),
                            0, 2, 1, 3);
    }
    ggml_tensor* attention(ggml_tensor* x) {
        ggml_tensor* const y = normed(x);
        ggml_tensor* const q = rotated(ggml_mul_mat(c(), weight(kWidth, kWidth), y));
        ggml_tensor* const k = rotated(ggml_mul_mat(c(), weight(kWidth, kWidth), y));
        ggml_tensor* const v = ggml_mul_mat(c(), weight(kWidth, kWidth), y);
        ggml_tensor* const keys = ggml_new_tensor_2d(c(), GGML_TYPE_F16, kWidth, kCached);
        ggml_tensor* const values = ggml_new_tensor_2d(c(), GGML_TYPE_F16, kWidth, kCached);
        ggml_build_forward_expand(
            graph_, ggml_set_rows(c(), keys, ggml_reshape_2d(c(), k, kWidth, 1), place_));
        ggml_build_forward_expand(graph_, ggml_set_rows(c(), values, v, place_));
        ggml_tensor* const seen =
            ggml_flash_attn_ext(c(), ggml_permute(c(), q, 0, 2, 1, 3), heads_of(keys),
                                heads_of(values), mask_, 0.125F, 0, 0);
        return ggml_add(
            c(), ggml_mul_mat(c(), weight(kWidth, kWidth), ggml_reshape_2d(c(), seen, kWidth, 1)),
            x);
    }
    ggml_tensor* network(ggml_tensor* x) {
        ggml_tensor* const y = normed(x);
        ggml_tensor* const inner =
            ggml_swiglu_split(c(), ggml_mul_mat(c(), weight(kWidth, kHidden), y),
                              ggml_mul_mat(c(), weight(kWidth, kHidden), y));
        return ggml_add(c(), ggml_mul_mat(c(), weight(kHidden, kWidth), inner), x);
    }

    ggml_context_ptr context_;
    ggml_cgraph* graph_;
    ggml_tensor *position_ = nullptr, *place_ = nullptr, *mask_ = nullptr;
};

/// The nodes of all golden cases of a directory. They never run, so their memory is not kept.
class GoldenNodes {
public:
    explicit GoldenNodes(const std::string& directory) {
        for (const std::string& path : golden::list_case_files(directory).value_or({})) {
            for (const golden::OpCase& each : golden::read_case_file(path).value_or({}).ops) {
                contexts_.push_back(*golden::make_raw_context(each));
                nodes_.push_back(golden::make_raw_node(each, *contexts_.back())->node);
            }
        }
    }

    std::span<Tensor* const> nodes() const { return nodes_; }

private:
    std::vector<OwnedContext> contexts_;
    std::vector<Tensor*> nodes_;
};

double now_ns() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

/// Each node in turn. Plans have the next ones fetched meanwhile, as here.
template <class Check>
void for_each_node(std::span<Tensor* const> nodes, Check check) {
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        if (i + kReadAhead < nodes.size()) prefetch(nodes[i + kReadAhead]);
        if (!check(*nodes[i])) std::abort();
    }
}

/// Reading the clock takes as long as checking some dozen nodes: small graphs are walked several
/// times per reading.
template <class Walk>
double time_per_node(std::size_t nodes, Walk walk) {
    const std::size_t passes = 1 + 4000 / nodes;
    std::vector<double> times(501);
    for (double& each : times) {
        const double start = now_ns();
        for (std::size_t i = 0; i < passes; ++i) walk();
        each = (now_ns() - start) / static_cast<double>(passes * nodes);
    }
    std::nth_element(times.begin(), times.begin() + 250, times.end());
    return times[250];
}

/// As plans do it, and each node for itself as devices do that are asked whether they support it.
/// What the walk takes without any check is taken off.
void measure(const char* name, std::span<Tensor* const> nodes) {
    if (nodes.empty()) return;
    const double walk = time_per_node(nodes.size(), [&] {
        for_each_node(nodes, [](const Tensor& node) { return node.op < GGML_OP_COUNT; });
    });
    const double in_graph = time_per_node(nodes.size(), [&] {
        GraphCheck graph;
        for_each_node(nodes, [&](const Tensor& node) { return graph.check(node).has_value(); });
    });
    const double alone = time_per_node(nodes.size(), [&] {
        for_each_node(nodes, [](const Tensor& node) { return check_node(node).has_value(); });
    });
    std::printf("%-12s %8zu %12.1f %12.1f\n", name, nodes.size(), in_graph - walk, alone - walk);
}

}  // namespace

int main(int count, char** arguments) {
    std::printf("%-12s %8s %12s %12s\n", "graph", "nodes", "ns per node", "alone");
    for (const int layers : {3, 33, 330}) {
        measure("transformer", nodes_of(Transformer(layers).graph()));
    }
    measure("golden cases", GoldenNodes(count > 1 ? arguments[1] : HEDDLE_GOLDEN_DATA).nodes());
}
