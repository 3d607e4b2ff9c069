#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <ostream>

#include "golden/build_case.hpp"
#include "golden/compare.hpp"
#include "ops/build.hpp"
#include "ops/check.hpp"

namespace heddle::golden {
namespace {

struct Directory {
    std::string label;
    std::string path;
};

/// The subset that comes with the sources, and the full set where there is one.
std::vector<Directory> directories() {
    std::vector<Directory> found{{"subset", HEDDLE_TEST_DATA "/golden"}};
    if (const char* named = std::getenv("HEDDLE_GOLDEN_DIR")) {
        found.push_back({"named", named});
    } else if (std::filesystem::is_directory(HEDDLE_GOLDEN_NEIGHBOUR)) {
        found.push_back({"full", HEDDLE_GOLDEN_NEIGHBOUR});
    }
    return found;
}

struct File {
    std::string label;
    std::string path;

    friend void PrintTo(const File& file, std::ostream* out) { *out << file.path; }
};

std::vector<File> all_files() {
    std::vector<File> files;
    for (const Directory& directory : directories()) {
        auto listed = list_case_files(directory.path);
        // A directory that cannot be read becomes a test that fails with the reason.
        if (!listed) {
            files.push_back({directory.label, directory.path});
            continue;
        }
        for (const std::string& path : *listed) {
            const std::string stem = std::filesystem::path(path).stem().string();
            files.push_back({directory.label + "_" + stem, path});
        }
    }
    return files;
}

class GoldenFile : public testing::TestWithParam<File> {
protected:
    void SetUp() override {
        auto cases = read_case_file(GetParam().path);
        ASSERT_TRUE(cases) << cases.error().message;
        cases_ = *std::move(cases);
        ASSERT_GT(cases_.ops.size() + cases_.graphs.size(), 0u);
    }

    CaseFile cases_;
};

/// Puts the recorded result where an op would have written it.
void write_recorded(const Recorded& recorded, std::span<std::byte> storage) {
    const bool is_dense =
        recorded.layout.stride == dense_strides(recorded.layout.type, recorded.layout.extent);
    if (recorded.content != Recorded::Content::elements) {
        std::ranges::copy(recorded.bytes, storage.begin());
    } else if (is_dense) {
        std::ranges::copy(recorded.bytes, storage.subspan(recorded.layout.offset).begin());
    }
    // What is left are views, whose elements are in the storage already.
}

TEST_P(GoldenFile, BuildersMakeTheRecordedNode) {
    for (const OpCase& golden : cases_.ops) {
        const auto result = check_build(golden);
        EXPECT_TRUE(result) << result.error().message;
    }
}

TEST_P(GoldenFile, RawNodesAreSuchAsTheirOpBuilds) {
    for (const OpCase& golden : cases_.ops) {
        const auto context = make_raw_context(golden);
        ASSERT_TRUE(context) << context.error().message;
        const auto raw = make_raw_node(golden, **context);
        ASSERT_TRUE(raw) << raw.error().message;
        const auto result = check_node(*raw->node);
        EXPECT_TRUE(result) << golden.name << " (" << golden.description
                            << "): " << result.error().message;
    }
}

TEST_P(GoldenFile, RecordedResultsPassTheirOwnComparison) {
    for (const OpCase& golden : cases_.ops) {
        const auto context = make_raw_context(golden);
        ASSERT_TRUE(context) << context.error().message;
        auto raw = make_raw_node(golden, **context);
        ASSERT_TRUE(raw) << raw.error().message;
        Storage& storage =
            raw->result_slot < 0 ? raw->own : raw->sources[std::size_t(raw->result_slot)];
        write_recorded(golden.result, storage.bytes());
        const auto comparison = compare_result(golden, raw->result());
        ASSERT_TRUE(comparison) << golden.name << ": " << comparison.error().message;
        EXPECT_TRUE(comparison->passed) << golden.name << ": " << comparison->what;
        EXPECT_EQ(comparison->error, 0) << golden.name;
    }
}

TEST_P(GoldenFile, ProgramsBuildTheRecordedGraph) {
    for (const GraphCase& golden : cases_.graphs) {
        const auto context = make_graph_context(golden);
        ASSERT_TRUE(context) << context.error().message;
        const auto build = build_graph(golden, **context);
        ASSERT_TRUE(build) << build.error().message;
        EXPECT_NE(build->graph, nullptr) << golden.name;
        ASSERT_FALSE(build->steps.empty()) << golden.name;
        EXPECT_EQ(build->steps.back(), Step::compute) << golden.name;
        for (const GraphTensor& recorded : golden.gradients) {
            EXPECT_NE(gradient_of(*build->graph, *build->tensors.at(recorded.number)), nullptr)
                << golden.name << ": t" << recorded.number;
        }
        for (const Tensor* node : nodes_of(*build->graph)) {
            const auto result = check_node(*node);
            EXPECT_TRUE(result) << golden.name << ": " << result.error().message;
        }
    }
}

/// The first case of the subset whose description begins so.
OpCase subset_case(const std::string& file, std::string_view description) {
    const auto cases = read_case_file(HEDDLE_TEST_DATA "/golden/" + file);
    EXPECT_TRUE(cases) << cases.error().message;
    for (const OpCase& golden : cases->ops) {
        if (golden.description.starts_with(description)) return golden;
    }
    ADD_FAILURE() << file << " has no case " << description;
    return {};
}

/// What `check_build` says of a case after `change`, without the name of the case.
template <class Change>
std::string objection_to(OpCase golden, Change change) {
    change(golden);
    const auto result = check_build(golden);
    if (result) return "";
    const std::string& message = result.error().message;
    return message.substr(message.find("): ") + 3);
}

TEST(GoldenBuild, NoticesEveryDeparture) {
    const OpCase golden = subset_case("acc.gguf", "ggml_acc_inplace");
    EXPECT_EQ(objection_to(golden, [](OpCase&) {}), "");
    EXPECT_EQ(objection_to(golden, [](OpCase& c) { c.op = "SET"; }),
              "the op is ACC, recorded is SET");
    EXPECT_EQ(objection_to(golden, [](OpCase& c) { c.params[4] = 7; }),
              "word 4 of the parameters is 1, recorded is 7");
    EXPECT_EQ(objection_to(golden, [](OpCase& c) { c.result.layout.type = GGML_TYPE_F16; }),
              "the node is f32[16,7,3,2], recorded is f16[16,7,3,2]");
    EXPECT_EQ(objection_to(golden, [](OpCase& c) { c.result.layout.stride[1] = 128; }),
              "the node has strides [4,64,448,1344], recorded are [4,128,448,1344]");
    EXPECT_EQ(objection_to(golden, [](OpCase& c) { c.result.layout.offset = 4; }),
              "the node begins at byte 0 of its storage, recorded is 4");
    EXPECT_EQ(objection_to(golden, [](OpCase& c) { c.result.view_of = 1; }),
              "the node is no view of slot 1, recorded it is");
    EXPECT_EQ(objection_to(golden, [](OpCase& c) { c.result.view_of = -1; }),
              "the node is a view of '' f32[16,7,3,2], recorded is one with memory of its own");
    EXPECT_EQ(objection_to(golden, [](OpCase& c) { c.sources.pop_back(); }),
              "slot 1 is in use, recorded is the opposite");
    EXPECT_EQ(objection_to(golden, [](OpCase& c) { c.sources[1].storage_of = 0; }),
              "slot 1 does not lie in the storage of slot 0");
}

TEST(GoldenBuild, RefusesFilesThatAreNone) {
    const auto missing = read_case_file("no/such/file.gguf");
    ASSERT_FALSE(missing);
    EXPECT_TRUE(missing.error().message.starts_with("no/such/file.gguf cannot be read"))
        << missing.error().message;
    EXPECT_FALSE(list_case_files("no/such/directory"));
}

INSTANTIATE_TEST_SUITE_P(All, GoldenFile, testing::ValuesIn(all_files()),
                         [](const auto& info) { return info.param.label; });

}  // namespace
}  // namespace heddle::golden
