#include "registry/on_demand.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "registry/test_support.hpp"

namespace heddle {
namespace {

using test::Directory;
namespace fs = std::filesystem;

class OnDemandTest : public testing::Test {
protected:
    Result<OnDemand::Answer> ask(std::string_view request) {
        return on_demand_.fulfil(request, directories_);
    }

    Directory directory_;
    std::vector<fs::path> directories_{directory_.path()};
    Registry registry_;
    PluginReport report_;
    Loader loader_{registry_, report_};
    OnDemand on_demand_{registry_, loader_};
};

TEST_F(OnDemandTest, OnlyListedNamesAreRequests) {
    EXPECT_TRUE(OnDemand::is_request("sim"));
    EXPECT_TRUE(OnDemand::is_request("SIM:devices=2"));
    EXPECT_TRUE(OnDemand::is_request("BLAS"));
    EXPECT_FALSE(OnDemand::is_request("simulator"));
    EXPECT_FALSE(OnDemand::is_request("cuda:0"));
    EXPECT_FALSE(OnDemand::is_request(""));
    EXPECT_EQ(ask("cuda").error().message, "there is no plug-in for 'cuda'");
}

TEST_F(OnDemandTest, ARequestIsForThePluginThatItBeginsWith) {
    EXPECT_EQ(OnDemand::plugin_of("mpi"), "mpi");
    EXPECT_EQ(OnDemand::plugin_of("MPI:threads=2"), "mpi");
    EXPECT_EQ(OnDemand::plugin_of("sim:mpi"), "sim");
}

TEST_F(OnDemandTest, AListOfRequestsMayHaveParametersWithCommas) {
    using testing::ElementsAre;
    EXPECT_THAT(OnDemand::split(""), ElementsAre());
    EXPECT_THAT(OnDemand::split(",blas,,"), ElementsAre("blas"));
    EXPECT_THAT(OnDemand::split("sim:devices=2,mem=1G,BLAS,loom"),
                ElementsAre("sim:devices=2,mem=1G", "BLAS", "loom"));
    EXPECT_THAT(OnDemand::split("blas,sim:2"), ElementsAre("blas", "sim:2"));
}

TEST_F(OnDemandTest, LoadsThePluginWithTheParametersOfTheRequest) {
    directory_.put("sim", "libggml-sim.so");
    const auto answer = ask("sim:3");
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(name_of(answer->registration), "sim");
    EXPECT_EQ(name_of(answer->device), "sim0");
    EXPECT_EQ(registry_.picture()->devices.size(), 3u);
}

TEST_F(OnDemandTest, TheSameRequestAgainChangesNothing) {
    directory_.put("sim", "libggml-sim.so");
    const auto first = ask("sim:2"), again = ask("sim:2"), plain = ask("sim");
    ASSERT_TRUE(first && again && plain);
    EXPECT_EQ(again->device, first->device);
    EXPECT_EQ(plain->device, first->device);
    EXPECT_EQ(registry_.picture()->devices.size(), 2u);
}

TEST_F(OnDemandTest, OtherParametersMakeTheDevicesAnew) {
    directory_.put("sim", "libggml-sim.so");
    const auto first = ask("sim:2"), second = ask("sim:1");
    ASSERT_TRUE(first && second);
    EXPECT_NE(second->device, first->device);
    ASSERT_EQ(registry_.picture()->devices.size(), 1u);
    EXPECT_EQ(registry_.picture()->devices[0].device, second->device);
}

TEST_F(OnDemandTest, BadParametersSayWhyAndLeaveNothingBehind) {
    directory_.put("sim", "libggml-sim.so");
    const auto answer = ask("sim:many");
    ASSERT_FALSE(answer);
    EXPECT_THAT(answer.error().message,
                testing::StartsWith("sim: does not accept the parameters 'many'"));
    EXPECT_TRUE(registry_.picture()->entries.empty());
    EXPECT_TRUE(ask("sim:2"));
}

TEST_F(OnDemandTest, SaysThatThereIsNoSuchPlugin) {
    EXPECT_EQ(ask("sim").error().message, "there is no sim plug-in that works here");
}

TEST_F(OnDemandTest, APluginWithoutParametersRefusesThem) {
    directory_.put("good", "libggml-sim.so");
    EXPECT_EQ(ask("sim:2").error().message, "sim: takes no parameters, was given '2'");
    EXPECT_TRUE(ask("sim"));
}

}  // namespace
}  // namespace heddle
