// How well and how fast graphs are planned: for each kind of graph the memory planned, the least
// that any plan could take (what is alive at one time), their ratio, and nanoseconds per node. The
// time is that of a whole plan: reading the graph, sizes, lifetimes, packing.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "runtime/alloc/lifetimes.hpp"
#include "runtime/alloc/packer.hpp"
#include "runtime/alloc/sample_graphs.hpp"
#include "runtime/buffer_type.hpp"
#include "runtime/host_buffer.hpp"

namespace {

using namespace heddle;
using Clock = std::chrono::steady_clock;

struct Row {
    std::size_t nodes = 0, peak = 0, bound = 0;
    double lifetimes = 0, packing = 0;  ///< nanoseconds per node
    double ratio() const { return static_cast<double>(peak) / static_cast<double>(bound); }
};

double median(std::vector<double> runs) {
    std::nth_element(runs.begin(), runs.begin() + runs.size() / 2, runs.end());
    return runs[runs.size() / 2];
}

Row measure(const Graph& graph, std::size_t runs) {
    BufferType* const types[] = {&host_buffer_type()};
    const std::size_t alignments[] = {alignment_of(*types[0])};
    const alloc::Assignment assignment{
        .arenas = types, .alignments = alignments, .nodes = {}, .leafs = {}};
    alloc::LifetimeFinder finder;
    Row row{.nodes = nodes_of(graph).size()};
    std::vector<double> finding, packing;
    for (std::size_t i = 0; i < runs; ++i) {
        const auto start = Clock::now();
        const auto lifetimes = *finder.find(graph, assignment);
        const auto found = Clock::now();
        const auto packed = *alloc::pack(lifetimes->blocks, SIZE_MAX);
        const auto end = Clock::now();
        row.peak = packed.total();
        row.bound = packed.bound;
        const auto nodes = static_cast<double>(row.nodes);
        finding.push_back(std::chrono::duration<double, std::nano>(found - start).count() / nodes);
        packing.push_back(std::chrono::duration<double, std::nano>(end - found).count() / nodes);
    }
    row.lifetimes = median(finding);
    row.packing = median(packing);
    return row;
}

void print(const std::string& name, const Row& row) {
    std::printf("%-28s %8zu %12zu %12zu %8.4f %10.1f %8.1f %8.1f\n", name.c_str(), row.nodes,
                row.peak, row.bound, row.ratio(), row.lifetimes, row.packing,
                row.lifetimes + row.packing);
}

void transformer(const std::string& name, const test::TransformerShape& shape) {
    test::SampleGraph sample(static_cast<std::size_t>(shape.layers) * 64 + 64);
    test::Transformer(sample, shape).build();
    print(name, measure(sample.graph(), shape.layers > 1000 ? 9 : 51));
}

void random_graphs(int count, int nodes) {
    double sum = 0, worst = 0, time = 0;
    for (int i = 0; i < count; ++i) {
        const int size = nodes != 0 ? nodes : 20 + i % 50 * 40;
        test::SampleGraph sample(static_cast<std::size_t>(size) + 64);
        test::build_random(sample, size, static_cast<std::uint32_t>(i));
        const Row row = measure(sample.graph(), 3);
        sum += row.ratio();
        worst = std::max(worst, row.ratio());
        time += row.lifetimes + row.packing;
    }
    std::printf(
        "%4d random graphs of %-6s: ratio %.4f on average, %.4f at worst; %.1f ns per node\n",
        count, nodes != 0 ? std::to_string(nodes).c_str() : "20-1980", sum / count, worst,
        time / count);
}

}  // namespace

int main() {
    std::printf("%-28s %8s %12s %12s %8s %10s %8s %8s\n", "graph", "nodes", "peak", "bound",
                "ratio", "lifetimes", "packing", "ns/node");
    transformer("transformer, 512 tokens", {});
    transformer("transformer, 1 token", {.tokens = 1});
    transformer("transformer, 32 tokens", {.tokens = 32});
    transformer("transformer, 10k nodes", {.layers = 320});
    transformer("transformer, 100k nodes", {.layers = 3200});
    random_graphs(1000, 0);
    random_graphs(3, 10'000);
    random_graphs(1, 100'000);
}
