// How well and how fast graphs are planned: for each graph the memory planned, the least that any
// plan could take (what is alive at one time), their ratio, and nanoseconds per node. The time is
// that of a whole plan: reading the graph, sizes, lifetimes, packing. It is the processor's time of
// this thread, so that other programs disturb it less; caches they still share. The last columns
// are a plan for a device that computes groups of nodes at once: the memory, how many of the groups
// it leaves room for, and nanoseconds per node.
//
//     planner_bench [directory with golden graphs]

#include <time.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "runtime/alloc/lifetimes.hpp"
#include "runtime/alloc/packer.hpp"
#include "runtime/alloc/planner.hpp"
#include "runtime/alloc/test_support.hpp"
#include "runtime/buffer_type.hpp"
#include "runtime/host_buffer.hpp"

// Set by builds that link the golden cases: where they lie unless the caller says otherwise.
#ifdef HEDDLE_GOLDEN_DATA
#include <filesystem>

#include "golden/build_case.hpp"
#endif

namespace {

using namespace heddle;

struct Row {
    std::size_t nodes = 0, peak = 0, bound = 0;
    double lifetimes = 0, planning = 0;  ///< nanoseconds; of the second the first is a part
    std::size_t device_peak = 0, groups = 0, kept = 0;  ///< with groups of nodes
    double device_planning = 0;
    double growth() const {
        return peak == 0 ? 1 : static_cast<double>(device_peak) / static_cast<double>(peak);
    }
    double ratio() const {
        return bound == 0 ? 1 : static_cast<double>(peak) / static_cast<double>(bound);
    }
};

/// Rows that belong together.
struct Summary {
    std::string name;
    int graphs = 0;
    std::size_t nodes = 0;
    double ratios = 0, worst = 1, lifetimes = 0, planning = 0;
    double growth = 0, most_growth = 1, device_planning = 0;
    std::size_t groups = 0, kept = 0;

    void add(const Row& row) {
        ++graphs;
        nodes += row.nodes;
        ratios += row.ratio();
        worst = std::max(worst, row.ratio());
        lifetimes += row.lifetimes;
        planning += row.planning;
        growth += row.growth();
        most_growth = std::max(most_growth, row.growth());
        device_planning += row.device_planning;
        groups += row.groups;
        kept += row.kept;
    }
    void print() const {
        const auto per_node = [&](double time) { return time / static_cast<double>(nodes); };
        std::printf("%-28s %8d %9zu %9.4f %8.4f %10.1f %8.1f %8.1f %8.4f %8.4f %8zu %8zu %8.1f\n",
                    name.c_str(), graphs, nodes, ratios / std::max(graphs, 1), worst,
                    per_node(lifetimes), per_node(planning - lifetimes), per_node(planning),
                    growth / std::max(graphs, 1), most_growth, groups, kept,
                    per_node(device_planning));
    }
};

double now() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

/// The least of several runs: whatever else the machine does only adds to it. Reading the clock
/// takes longer than to plan a few nodes, so that small graphs are planned many times per reading.
class Stopwatch {
public:
    explicit Stopwatch(std::size_t nodes) : repetitions_(1 + 4000 / (nodes + 1)) {}

    template <class Action>
    void run(Action action) {
        const double start = now();
        for (std::size_t i = 0; i < repetitions_; ++i) action();
        least_ = std::min(least_, (now() - start) / static_cast<double>(repetitions_));
    }
    double least() const { return least_; }

private:
    std::size_t repetitions_;
    double least_ = 1e300;
};

/// The same for a device that computes groups of nodes at once.
void measure_device(const Graph& graph, alloc::Assignment assignment, int runs, Row& row) {
    const std::uint8_t fuses[] = {1};
    assignment.fuses = fuses;
    const alloc::ArenaRoom rooms[] = {{}};
    alloc::Planner planner;
    Stopwatch planning(row.nodes);
    for (int i = 0; i < runs; ++i) {
        planning.run([&] {
            const auto plan = planner.plan(graph, assignment, rooms);
            row.device_peak = plan->bytes(0);
            row.groups = plan->steps.size();
            row.kept = static_cast<std::size_t>(std::ranges::count(plan->steps, true));
        });
    }
    row.device_planning = planning.least();
}

/// Finding lifetimes and packing take turns, as they do in use: neither has the caches for itself.
Row measure(const Graph& graph, int runs) {
    BufferType* const types[] = {&host_buffer_type()};
    const std::size_t alignments[] = {alignment_of(*types[0])};
    const alloc::Assignment assignment{
        .arenas = types, .alignments = alignments, .nodes = {}, .leafs = {}};
    alloc::LifetimeFinder finder;
    alloc::Packer packer;
    Row row{.nodes = nodes_of(graph).size()};
    Stopwatch finding(row.nodes), planning(row.nodes);
    for (int i = 0; i < runs; ++i) {
        finding.run([&] { (void)finder.find(graph, assignment); });
        planning.run([&] {
            const alloc::Lifetimes& lifetimes = **finder.find(graph, assignment);
            const alloc::Packing& packing = **packer.pack(lifetimes.blocks, SIZE_MAX);
            row.peak = packing.total();
            row.bound = packing.bound;
        });
    }
    row.lifetimes = finding.least();
    row.planning = planning.least();
    measure_device(graph, assignment, runs, row);
    return row;
}

void print(const std::string& name, const Row& row) {
    const auto nodes = static_cast<double>(row.nodes);
    std::printf("%-28s %8zu %12zu %12zu %8.4f %10.1f %8.1f %8.1f %12zu %6zu %6zu %8.1f\n",
                name.c_str(), row.nodes, row.peak, row.bound, row.ratio(), row.lifetimes / nodes,
                (row.planning - row.lifetimes) / nodes, row.planning / nodes, row.device_peak,
                row.groups, row.kept, row.device_planning / nodes);
}

#ifdef HEDDLE_GOLDEN_DATA
/// Every graph among the golden cases of a directory. What cannot be built is named.
Summary golden_graphs(const std::string& directory) {
    Summary all{.name = "golden graphs"};
    const auto files = golden::list_case_files(directory);
    if (!files) std::printf("%s\n", files.error().message.c_str());
    for (const std::string& path : files ? *files : std::vector<std::string>{}) {
        if (!std::filesystem::path(path).stem().string().starts_with("graph_")) continue;
        const auto cases = golden::read_case_file(path);
        if (!cases) std::printf("%s: %s\n", path.c_str(), cases.error().message.c_str());
        for (const auto& golden : cases ? cases->graphs : std::vector<golden::GraphCase>{}) {
            const auto context = golden::make_graph_context(golden);
            const auto built = golden::build_graph(golden, **context);
            if (!built || built->graph == nullptr || nodes_of(*built->graph).empty()) {
                std::printf("%-28s not built\n", golden.name.c_str());
                continue;
            }
            const Row row = measure(*built->graph, 51);
            print(golden.name, row);
            all.add(row);
        }
    }
    return all;
}
#endif

Summary transformer(const std::string& name, const test::TransformerShape& shape) {
    test::SampleGraph sample(static_cast<std::size_t>(shape.layers) * 64 + 64);
    test::Transformer(sample, shape).build();
    const Row row = measure(sample.graph(), shape.layers > 1000 ? 9 : 51);
    print(name, row);
    Summary one{.name = name};
    one.add(row);
    return one;
}

/// Graphs of `nodes` nodes before what leads to no result is left out; 0: of 20 to 1980.
Summary random_graphs(const std::string& name, int count, int nodes) {
    Summary all{.name = name};
    for (int i = 0; i < count; ++i) {
        const int size = nodes != 0 ? nodes : 20 + i % 50 * 40;
        test::SampleGraph sample(static_cast<std::size_t>(size) + 64);
        test::build_random(sample, size, static_cast<std::uint32_t>(i));
        all.add(measure(sample.graph(), 5));
    }
    return all;
}

}  // namespace

int main([[maybe_unused]] int count, [[maybe_unused]] char** arguments) {
    std::vector<Summary> summaries;
    std::printf("%-28s %8s %12s %12s %8s %10s %8s %8s %12s %6s %6s %8s\n", "graph", "nodes", "peak",
                "bound", "ratio", "lifetimes", "packing", "ns/node", "device", "groups", "kept",
                "ns/node");
#ifdef HEDDLE_GOLDEN_DATA
    summaries.push_back(golden_graphs(count > 1 ? arguments[1] : HEDDLE_GOLDEN_DATA));
#endif
    summaries.push_back(transformer("transformer, 512 tokens", {}));
    summaries.push_back(transformer("transformer, 1 token", {.tokens = 1}));
    summaries.push_back(transformer("6 layers, GLU, 1 token",
                                    {.layers = 6, .tokens = 1, .cached = 8, .glu = true}));
    summaries.push_back(transformer("6 layers, GLU, 512 tokens",
                                    {.layers = 6, .tokens = 512, .cached = 512, .glu = true}));
    summaries.push_back(transformer("transformer, 32 tokens", {.tokens = 32}));
    summaries.push_back(transformer("transformer, 10k nodes", {.layers = 320}));
    summaries.push_back(transformer("transformer, 100k nodes", {.layers = 3200}));
    summaries.push_back(random_graphs("random, 20 to 1980 nodes", 1000, 0));
    summaries.push_back(random_graphs("random, 1k nodes", 20, 1600));
    summaries.push_back(random_graphs("random, 10k nodes", 5, 16'000));
    summaries.push_back(random_graphs("random, 100k nodes", 1, 160'000));

    std::printf("\n%-28s %8s %9s %9s %8s %10s %8s %8s %8s %8s %8s %8s %8s\n", "all", "graphs",
                "nodes", "average", "worst", "lifetimes", "packing", "ns/node", "device", "most",
                "groups", "kept", "ns/node");
    for (const Summary& summary : summaries) summary.print();
}
