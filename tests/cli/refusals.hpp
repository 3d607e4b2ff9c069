#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "program.hpp"

namespace heddle::cli_test {

/// Bad input gets one line that says what is wrong, and leaves nothing behind.
class RefusalTest : public testing::Test {
protected:
    using Words = std::vector<std::string>;

    /// A command is called by so many words.
    explicit RefusalTest(std::size_t command_words = 1) : command_words_(command_words) {}

    std::string path(const std::string& name) const { return directory_.path(name); }

    /// Files that are there from now on are meant to stay, and no others to come.
    void remember_files() { before_ = directory_.files(); }

    /// Words that begin with '@' stand for files of the directory.
    Outcome run(Words words) const {
        for (std::string& word : words) {
            if (word.starts_with('@')) word = path(word.substr(1));
        }
        return heddle(words);
    }

    /// The program fails with a line that contains `says`; files are as before.
    void refuses(const Words& words, const std::string& says) const {
        std::string command = "heddle";
        for (std::size_t i = 0; i < command_words_; ++i) command += " " + words[i];
        SCOPED_TRACE(testing::PrintToString(words));
        const Outcome outcome = run(words);
        EXPECT_EQ(outcome.status, 1);
        EXPECT_EQ(outcome.out, "");
        EXPECT_THAT(outcome.err, testing::StartsWith(command + ": "));
        EXPECT_THAT(outcome.err, testing::HasSubstr(says));
        EXPECT_THAT(outcome.err, testing::EndsWith("\n"));
        EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
        EXPECT_EQ(directory_.files(), before_);
    }

    /// The command line makes no sense.
    void is_misuse(const Words& words) const {
        const Outcome outcome = run(words);
        EXPECT_EQ(outcome.status, 2) << testing::PrintToString(words) << outcome.err;
        // Scripts are told, too.
        const bool is_json = outcome.out.starts_with("{\"error\":");
        EXPECT_TRUE(outcome.out.empty() ||
                    (is_json && std::ranges::find(words, "--json") != words.end()))
            << outcome.out;
        EXPECT_NE(outcome.err, "");
        EXPECT_EQ(directory_.files(), before_);
    }

private:
    const std::size_t command_words_;
    Directory directory_;
    std::vector<std::string> before_;
};

}  // namespace heddle::cli_test
