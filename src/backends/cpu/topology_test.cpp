#include "backends/cpu/topology.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "backends/cpu/numa.hpp"

namespace heddle::cpu {
namespace {

TEST(CpuList, ReadsRangesAndSingleNumbers) {
    EXPECT_EQ(*parse_cpu_list("0-3,8,10-11\n"), (CpuList{0, 1, 2, 3, 8, 10, 11}));
    EXPECT_EQ(*parse_cpu_list("5"), CpuList{5});
    EXPECT_EQ(*parse_cpu_list("2,0-2"), (CpuList{0, 1, 2})) << "sorted, each once";
    EXPECT_EQ(*parse_cpu_list(" \n"), CpuList{});
}

TEST(CpuList, RefusesNonsense) {
    EXPECT_EQ(parse_cpu_list("0-x").error().message, "'x' is not the number of a CPU");
    EXPECT_EQ(parse_cpu_list("3-1").error().message, "CPUs 3-1 run backwards");
    EXPECT_EQ(parse_cpu_list("-1").error().message, "'' is not the number of a CPU");
    EXPECT_EQ(parse_cpu_list("0-99999999").error().message, "CPU 99999999 is above 65536");
}

/// A folder like those of the kernel, removed afterwards.
class FakeSystem : public testing::Test {
protected:
    void SetUp() override {
        root = testing::TempDir() + "heddle_topology_" + std::to_string(::getpid());
        std::filesystem::create_directories(root);
    }
    void TearDown() override { std::filesystem::remove_all(root); }

    void write(const std::string& name, const std::string& content) {
        const std::filesystem::path path = std::filesystem::path(root) / name;
        std::filesystem::create_directories(path.parent_path());
        std::ofstream(path) << content;
    }

    std::string root;
};

TEST_F(FakeSystem, NodesAreThoseOnlineThatHaveCpus) {
    write("online", "0-2\n");
    write("node0/cpulist", "0-1,4\n");
    write("node1/cpulist", "\n");  // memory only
    write("node2/cpulist", "2-3\n");
    const auto nodes = read_numa_nodes(root);
    ASSERT_EQ(nodes.size(), 2u);
    EXPECT_EQ(nodes[0].cpus, (CpuList{0, 1, 4}));
    EXPECT_EQ(nodes[1].number, 2);
    EXPECT_EQ(nodes[1].cpus, (CpuList{2, 3}));
}

TEST_F(FakeSystem, WhatCanBeOpenedButNotReadIsEmpty) {
    EXPECT_EQ(read_file(root), "") << "a directory";
    EXPECT_EQ(read_cpu_quota(root), 0);
}

TEST_F(FakeSystem, WithoutFilesThereAreNoNodes) { EXPECT_TRUE(read_numa_nodes(root).empty()); }

TEST_F(FakeSystem, QuotasAreRoundedUp) {
    write("cpu.max", "150000 100000\n");
    EXPECT_EQ(read_cpu_quota(root + "/cpu.max"), 2);
    write("cpu.max", "max 100000\n");
    EXPECT_EQ(read_cpu_quota(root + "/cpu.max"), 0);
    EXPECT_EQ(read_cpu_quota(root + "/missing"), 0);
}

TEST(Machine, HasCpusMemoryAndAModel) {
    EXPECT_GE(usable_cpus(), 1);
    EXPECT_FALSE(cpu_model().empty());
#if defined(__linux__)
    EXPECT_FALSE(thread_cpus().empty());
    EXPECT_GT(physical_memory(), std::size_t{1} << 20);
    EXPECT_GT(available_memory(), std::size_t{1} << 20);
    EXPECT_LE(available_memory(), physical_memory());
#endif
}

TEST(Machine, AvailableMemoryIsWhatTheKernelSays) {
    EXPECT_EQ(available_memory("MemTotal: 100 kB\nMemFree: 5 kB\nMemAvailable:   20 kB\n"),
              20u * 1024);
    EXPECT_EQ(available_memory("MemTotal: 100 kB\n"), 0u);
    EXPECT_EQ(available_memory("MemAvailable: lots\n"), 0u);
    EXPECT_EQ(available_memory("MemAvailable: 99999999999999999999 kB\n"), 0u);
    EXPECT_EQ(available_memory("MemAvailable: 18446744073709551615 kB\n"), 0u);
}

TEST(Machine, ValuesAreTrimmedAndTheFirstCounts) {
    constexpr std::string_view kText =
        "vendor_id\t: X\nmodel name\t:  A  B \nmodel name : C\nodd\n";
    EXPECT_EQ(find_value(kText, "model name"), "A  B");
    EXPECT_EQ(find_value(kText, "absent"), "");
}

// ---- strategies over memory nodes --------------------------------------------------------------

NumaPolicy two_nodes(NumaStrategy strategy) {
    return {strategy, {{0, {0, 1}}, {1, {2, 3}}}, {1, 2}, 3};
}

TEST(NumaPolicy, DistributesThreadsOverNodesInTurn) {
    const NumaPolicy policy = two_nodes(GGML_NUMA_STRATEGY_DISTRIBUTE);
    EXPECT_EQ(policy.cpus_for(0), (CpuList{0, 1}));
    EXPECT_EQ(policy.cpus_for(1), (CpuList{2, 3}));
    EXPECT_EQ(policy.cpus_for(2), (CpuList{0, 1}));
}

TEST(NumaPolicy, IsolatesOnTheNodeItStartedOn) {
    EXPECT_EQ(two_nodes(GGML_NUMA_STRATEGY_ISOLATE).cpus_for(7), (CpuList{2, 3}));
}

TEST(NumaPolicy, KeepsTheCpusGivenAtTheStart) {
    EXPECT_EQ(two_nodes(GGML_NUMA_STRATEGY_NUMACTL).cpus_for(7), (CpuList{1, 2}));
}

TEST(NumaPolicy, OtherwiseLeavesThreadsAlone) {
    EXPECT_TRUE(two_nodes(GGML_NUMA_STRATEGY_DISABLED).cpus_for(0).empty());
    EXPECT_TRUE(two_nodes(GGML_NUMA_STRATEGY_MIRROR).cpus_for(0).empty());
    const NumaPolicy one_node{GGML_NUMA_STRATEGY_DISTRIBUTE, {{0, {0, 1}}}, {}, 0};
    EXPECT_FALSE(one_node.is_numa());
    EXPECT_TRUE(one_node.cpus_for(0).empty());
}

TEST(NumaPolicy, IsChosenOnce) {
    EXPECT_EQ(choose_numa(static_cast<NumaStrategy>(9)).error().message,
              "NUMA strategy 9 is not one of the 5 there are");
    // The process has chosen already where these tests are repeated.
    static const bool first = choose_numa(GGML_NUMA_STRATEGY_DISABLED).has_value();
    ASSERT_TRUE(first);
    EXPECT_EQ(choose_numa(GGML_NUMA_STRATEGY_ISOLATE).error().message,
              "NUMA strategy 0 was chosen before and stays");
    EXPECT_EQ(numa_policy().strategy, GGML_NUMA_STRATEGY_DISABLED);
}

}  // namespace
}  // namespace heddle::cpu
