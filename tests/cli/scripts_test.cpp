#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "model_test.hpp"

/// What scripts get from the program.
namespace heddle::cli_test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class Scripts : public ModelTest {};

TEST_F(Scripts, AreToldWhyATextEndedAndHowItWasMade) {
    const Outcome outcome = heddle({"run", model_, "-p", "a", "-n", "4", "--seed", "9", "--json"});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const json all = json::parse(outcome.out);
    EXPECT_EQ(all["finish"], "length");
    EXPECT_EQ(all["sampling"]["seed"], 9);
    EXPECT_EQ(all["sampling"]["top_k"], 40);
    EXPECT_EQ(all["sampling"]["top_p"], 0.95) << "as it is typed";
    EXPECT_GT(all["load_s"].get<double>(), 0);
    EXPECT_GT(all["first_token_s"].get<double>(), 0);
    const auto finish = [&](std::vector<std::string> more) {
        more.insert(more.begin(), {"run", model_, "-p", "a", "--temperature", "0", "--json"});
        return json::parse(heddle(more).out)["finish"];
    };
    EXPECT_EQ(finish({"-n", "1000"}), "context");
    const std::string text = json::parse(
        heddle({"run", model_, "-p", "a", "--temperature", "0", "--json", "-n", "20"}).out)["text"];
    if (text.size() > 1 && static_cast<unsigned char>(text[1]) < 128) {
        EXPECT_EQ(finish({"-n", "20", "--stop", text.substr(1, 1)}), "stop");
    }
}

TEST_F(Scripts, MayReadTheTextWhileItIsWritten) {
    const std::vector<std::string> words{"run", model_,          "-p", "a", "-n",
                                         "12",  "--temperature", "0"};
    auto lines = words, whole = words;
    lines.emplace_back("--json-lines");
    whole.emplace_back("--json");
    const Outcome outcome = heddle(lines);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    std::istringstream in(outcome.out);
    std::string text;
    json ids = json::array(), last;
    std::size_t count = 0;
    for (std::string line; std::getline(in, line); ++count) {
        last = json::parse(line);
        if (last.contains("finish")) continue;
        text += last["text"].get<std::string>();
        for (const json& id : last["ids"]) ids.push_back(id);
    }
    EXPECT_GT(count, 2u);
    const json all = json::parse(heddle(whole).out);
    EXPECT_EQ(text, all["text"]);
    EXPECT_EQ(ids, all["ids"]);
    EXPECT_EQ(last["text"], all["text"]) << "the last line has all of it";
}

TEST_F(Scripts, GetFailuresAsJsonToo) {
    for (const std::vector<std::string>& words :
         std::vector<std::vector<std::string>>{{"run", model_, "--json", "--promt", "a"},
                                               {"devices", "--jsno", "--json"},
                                               {"run", "--json"}}) {
        const Outcome outcome = heddle(words);
        EXPECT_EQ(outcome.status, 2);
        const json all = json::parse(outcome.out, nullptr, false);
        ASSERT_TRUE(all.is_object()) << outcome.out;
        EXPECT_EQ(all["error"]["status"], 2);
        EXPECT_THAT(outcome.err, HasSubstr(all["error"]["message"].get<std::string>()));
    }
    const Outcome outcome = heddle({"run", "nowhere.gguf", "-p", "a", "--json"});
    EXPECT_EQ(outcome.status, 1);
    const json all = json::parse(outcome.out, nullptr, false);
    ASSERT_TRUE(all.is_object()) << outcome.out;
    EXPECT_EQ(all["error"]["command"], "run");
    EXPECT_THAT(all["error"]["message"].get<std::string>(),
                HasSubstr("nowhere.gguf: cannot be opened"));
    EXPECT_THAT(outcome.err, HasSubstr("heddle run: nowhere.gguf: cannot be opened"));
}

TEST_F(Scripts, FilesThatCannotBeWrittenAreToldBeforeTheWork) {
    const std::string nowhere = directory_.path("no/such/file");
    for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
             {"run", model_, "-p", "ab", "-n", "2", "--html", nowhere},
             {"explain", model_, "--run", "--html", nowhere},
             {"explain", model_, "--run", "--trace", nowhere},
             {"explain", model_, "--dot", nowhere},
             {"bench", "ceilings", "--quick", "--svg", nowhere},
             {"bench", "ops", "add", "--quick", "--html", nowhere}}) {
        const Outcome outcome = heddle(words);
        EXPECT_EQ(outcome.status, 1) << words[0];
        EXPECT_EQ(outcome.out, "") << words[0] << ": nothing was done";
        EXPECT_THAT(outcome.err, HasSubstr("cannot be written"));
    }
}

}  // namespace
}  // namespace heddle::cli_test
