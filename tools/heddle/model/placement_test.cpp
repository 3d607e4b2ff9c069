#include "model/placement.hpp"

#include <gtest/gtest.h>

#include "model/placement_text.hpp"

namespace heddle::tool {
namespace {

// ---- layers ------------------------------------------------------------------------------------

class SharedLayers : public testing::Test {
protected:
    void SetUp() override {
        auto opened = ModelFile::open(HEDDLE_SHIPPED "/tales-7m-q8_0.gguf");
        if (!opened) GTEST_SKIP() << opened.error().message;
        file.emplace(*std::move(opened));
        auto read = Shape::read(*file);
        ASSERT_TRUE(read) << read.error().message;
        shape = *read;
    }

    /// The places of the layers if two devices with memory of the processor's refuse so much.
    std::vector<std::size_t> places(const Refusals& first, const Refusals& second) const {
        const auto cpu = Device::cpu();
        auto shared = share_layers(
            *file, shape, {{.device = *cpu, .refused = first}, {.device = *cpu, .refused = second}},
            64);
        EXPECT_TRUE(shared) << shared.error().message;
        return *std::move(shared);
    }
    static Refusals matrices_of(int layer, std::initializer_list<const char*> names) {
        Refusals refused;
        for (const char* name : names) {
            refused["blk." + std::to_string(layer) + "." + name + ".weight"] = "MUL_MAT of q8_0";
        }
        return refused;
    }

    std::optional<ModelFile> file;
    Shape shape;
};

using Places = std::vector<std::size_t>;

TEST_F(SharedLayers, AreHalvedBetweenTwoOfTheSameSize) {
    EXPECT_EQ(places({}, {}), (Places{1, 1, 1, 1, 2, 2, 2, 2}));
}

TEST_F(SharedLayers, StayOnTheHostIfMostOfTheirMatricesAreRefused) {
    EXPECT_EQ(places({}, matrices_of(6, {"ffn_gate", "ffn_up", "ffn_down"})),
              (Places{1, 1, 1, 2, 2, 2, 0, 2}));
}

TEST_F(SharedLayers, GoWhereMostOfTheirMatricesAreTaken) {
    EXPECT_EQ(places({}, matrices_of(6, {"attn_v"})), (Places{1, 1, 1, 1, 2, 2, 2, 2}));
}

TEST_F(SharedLayers, AreObjectedToOnlyWhereNoneIsWelcome) {
    EXPECT_EQ(objection_to_layers(*file, shape, {}), "");
    const auto most = {"ffn_gate", "ffn_up", "ffn_down"};
    EXPECT_EQ(objection_to_layers(*file, shape, matrices_of(6, most)), "");
    Refusals all;
    for (int layer = 0; layer < shape.layers; ++layer) all.merge(matrices_of(layer, most));
    EXPECT_EQ(objection_to_layers(*file, shape, all), "MUL_MAT of q8_0");
}

// ---- words -------------------------------------------------------------------------------------

TEST(PlacementText, TellsLayersInFewWords) {
    EXPECT_EQ(places_text({"CPU", "CPU", "CPU"}), "all layers on CPU");
    EXPECT_EQ(places_text({"SIM0", "SIM0", "CPU"}), "all layers on SIM0, the output on CPU");
    EXPECT_EQ(places_text({"CPU", "SIM0", "SIM0", "SIM0"}),
              "layer 0 on CPU, layers 1-2 and the output on SIM0");
    EXPECT_EQ(places_text({"CPU", "SIM0", "CPU"}),
              "layer 0 on CPU, layer 1 on SIM0, the output on "
              "CPU");
}

TEST(PlacementText, TellsSharesOfTheWork) {
    EXPECT_EQ(work_text({}), "");
    EXPECT_EQ(work_text({{"CPU", 1.0}}), "CPU computed all the work");
    EXPECT_EQ(work_text({{"CPU", 0.623}, {"SIM0", 0.377}}),
              "CPU computed 62 % of the work, SIM0 38 %");
    EXPECT_EQ(work_text({{"CPU", 0.9999}, {"SIM0", 0.0001}}),
              "CPU computed above 99 % of the work, SIM0 below 1 %");
}

TEST(PlacementText, TellsWhoIsLeftOut) {
    EXPECT_EQ(left_out_text({}), "");
    EXPECT_EQ(left_out_text({{"A", "no MUL_MAT of q8_0"}, {"B", "no MUL_MAT of f16"}}),
              "; A left out: no MUL_MAT of q8_0; B left out: no MUL_MAT of f16");
}

TEST(PlacementText, NamesADeviceThatFailedOnce) {
    const std::string given = "D0, nodes 'a' to 'b': computing 2 nodes on stream 'D0': ";
    const std::string answer = "the backend answered FAILED (-1)";
    EXPECT_EQ(said_once("D0", given + answer + ": D0: compute: node 'x', ADD: broken"),
              "node 'x', ADD: broken");
    EXPECT_EQ(said_once("D0", given + answer + ": D0: compute: broken"),
              "nodes 'a' to 'b': broken");
    EXPECT_EQ(said_once("D0", given + answer + ": D0: compute: D0 was lost: node 'x'"),
              "was lost: node 'x'");
    EXPECT_EQ(said_once("D0", given + answer), "nodes 'a' to 'b': " + answer);
    EXPECT_EQ(said_once("D0", "D0: does not answer"), "does not answer");
    EXPECT_EQ(said_once("D0", "broken"), "broken");
    EXPECT_EQ(said_once("D0", "buffer of type D0: write 'w': D0 was lost: cannot copy 'w'"),
              "buffer of type D0: was lost: cannot copy 'w'");
    EXPECT_EQ(said_once("D0", "copy of 'y' from CPU to D0: writing 'z': D0: lost"),
              "copy of 'y' from CPU to D0: lost");
}

}  // namespace
}  // namespace heddle::tool
