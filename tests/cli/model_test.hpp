#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "program.hpp"
#include "small_model.hpp"

namespace heddle::cli_test {

/// The model that ships with the project.
inline const std::string kTales = HEDDLE_SHIPPED "/tales-7m-q8_0.gguf";

/// A test with a directory of its own, and a small model in it.
class ModelTest : public testing::Test {
protected:
    void SetUp() override { SmallModel().write(model_); }

    std::string path(const std::string& name) const { return directory_.path(name); }

    /// The same model with a chat template: by default one that shows who said what.
    std::string with_template(const std::string& source =
                                  "{% for m in messages %}<{{ m.role }}:{{ m.content }}>{% endfor "
                                  "%}<assistant:") const {
        SmallModel{.chat_template = source}.write(path("chat.gguf"));
        return path("chat.gguf");
    }

    Directory directory_;
    const std::string model_ = directory_.path("model.gguf");
};

/// A test that needs the model that ships.
class ShippedModelTest : public testing::Test {
protected:
    void SetUp() override {
        if (!std::filesystem::exists(kTales)) GTEST_SKIP() << kTales << " is not there";
    }
};

}  // namespace heddle::cli_test
