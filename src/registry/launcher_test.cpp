#include "registry/launcher.hpp"

#include <gtest/gtest.h>

#include <map>

namespace heddle {
namespace {

bool wants(std::map<std::string, std::string> variables) {
    return wants_mpi([&](const char* name) { return variables[name]; });
}

TEST(Launcher, HostsAskForWorkersUnlessMpiIsSwitchedOff) {
    EXPECT_FALSE(wants({}));
    EXPECT_TRUE(wants({{"HEDDLE_MPI_HOSTS", "n1,n2"}}));
    EXPECT_FALSE(wants({{"HEDDLE_MPI_HOSTS", "n1,n2"}, {"HEDDLE_MPI", "0"}}));
}

TEST(Launcher, AJobIsJoinedWhereTheUserSaysSo) {
    EXPECT_FALSE(wants({{"HEDDLE_MPI", "1"}})) << "no launcher started this process";
    EXPECT_TRUE(wants({{"HEDDLE_MPI", "1"}, {"PMIX_RANK", "0"}}));
    EXPECT_FALSE(wants({{"PMIX_RANK", "0"}})) << "the job of another program";
}

TEST(Launcher, OneProgramBesideWorkersIsRecognised) {
    const std::map<std::string, std::string> job{{"OMPI_COMM_WORLD_RANK", "0"},
                                                 {"OMPI_NUM_APP_CTX", "2"},
                                                 {"OMPI_APP_CTX_NUM_PROCS", "1 3"}};
    EXPECT_TRUE(wants(job));
    auto equal = job;
    equal["OMPI_APP_CTX_NUM_PROCS"] = "4 4";
    EXPECT_FALSE(wants(equal)) << "several programs that are alike";
    auto worker = job;
    worker["OMPI_COMM_WORLD_RANK"] = "2";
    EXPECT_FALSE(wants(worker));
    auto single = job;
    single["OMPI_NUM_APP_CTX"] = "1";
    EXPECT_FALSE(wants(single));
}

TEST(Launcher, DevicesOfWorkersComeFirstUnlessTheUserSaysLast) {
    const auto goes_last = [](const std::string& order) {
        return mpi_goes_last([&](const char* name) {
            return name == std::string("HEDDLE_MPI_ORDER") ? order : std::string();
        });
    };
    EXPECT_FALSE(goes_last(""));
    EXPECT_FALSE(goes_last("first"));
    EXPECT_TRUE(goes_last("last"));
    EXPECT_FALSE(goes_last("LAST")) << "the plug-in refuses it, with a sentence";
}

}  // namespace
}  // namespace heddle
