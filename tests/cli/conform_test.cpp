#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "program.hpp"

/// What `heddle conform` makes of devices that keep the rules, and of one that ends the process.
namespace heddle::cli_test {
namespace {

using nlohmann::json;
using testing::ContainsRegex;
using testing::HasSubstr;

TEST(Conform, ADeviceKeepsTheRules) {
    const Outcome outcome = heddle({"conform", "sim", "CPU"});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_THAT(outcome.out, ContainsRegex("SIM0 +[0-9]+ +0 +0 +[0-9]+"));
    EXPECT_THAT(outcome.out, ContainsRegex("CPU +[0-9]+ +0 +0 +[0-9]+"));
}

TEST(Conform, RulesAreSentencesAndSayWhyTheyDoNotApply) {
    const Outcome outcome = heddle({"conform", "CPU", "--rule", "Event", "-v"});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("stream: events exist where the device says so"));
    EXPECT_THAT(outcome.out, HasSubstr("not applicable  has no events"));
}

TEST(Conform, WhatADeviceDoesNotSurviveIsARowAndTheRestGoesOn) {
    const Outcome outcome = heddle({"conform", HEDDLE_TRAP_PLUGIN, "--json"});
    EXPECT_EQ(outcome.status, 1);
    const json all = json::parse(outcome.out, nullptr, false);
    ASSERT_FALSE(all.is_discarded()) << outcome.out;
    EXPECT_GT(all["devices"]["TRAP0"]["kept"], 20) << "it adds, which the rules need";
    EXPECT_LT(all["devices"]["TRAP0"]["died"], 5);
    const json& trap = all["devices"]["TRAP1"];
    EXPECT_EQ(trap["died"], 5);
    const auto is_death = [](const json& rule) { return rule["outcome"] == "died"; };
    const auto death = std::ranges::find_if(trap["rules"], is_death);
    ASSERT_NE(death, trap["rules"].end());
    EXPECT_THAT((*death)["why"].get<std::string>(),
                ContainsRegex("^SIGABRT: .*the door falls shut$"));
    EXPECT_THAT(outcome.err, HasSubstr("TRAP1 was given up after 5 deaths"));
}

TEST(Conform, WhatIsNotThereIsSaid) {
    const auto refuses = [](const std::vector<std::string>& words, const char* sentence) {
        const Outcome outcome = heddle(words);
        EXPECT_NE(outcome.status, 0);
        EXPECT_THAT(outcome.err, HasSubstr(sentence));
    };
    refuses({"conform", "LOOM7"}, "heddle conform: no device is called 'LOOM7'");
    refuses({"conform", "./no.so"}, "./no.so: there is no such file");
    refuses({"conform"}, "device is required");
    refuses({"conform", "CPU", "--rule", "Quantum"}, "there was no rule to check");
    refuses({"conform", "CPU", "--rule", "Event-a:b"},
            "--rule 'Event-a:b' is not a part of a rule's name, such as Event");
    for (const char* command : {"conform", "verify"}) {
        std::vector<std::string> words{command};
        if (words.front() == "verify") words.emplace_back("--device");
        words.emplace_back(HEDDLE_TEST_PLUGINS "/zero_devices.so");
        refuses(words, "has no devices here");
    }
}

}  // namespace
}  // namespace heddle::cli_test
