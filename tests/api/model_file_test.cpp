#include <cstdio>
#include <filesystem>
#include <fstream>

#include "test_support.hpp"

namespace heddle {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// A small file with a value of every kind and one tensor.
class ModelFiles : public testing::Test {
protected:
    void SetUp() override {
        const gguf_context_ptr file(gguf_init_empty());
        gguf_set_val_str(file.get(), "text", "hello");
        gguf_set_val_u32(file.get(), "number", 7);
        gguf_set_val_i64(file.get(), "below", -3);
        gguf_set_val_u64(file.get(), "huge", UINT64_MAX);
        gguf_set_val_f32(file.get(), "real", 0.5f);
        gguf_set_val_bool(file.get(), "flag", true);
        const float reals[] = {1, 2};
        gguf_set_arr_data(file.get(), "reals", GGUF_TYPE_FLOAT32, reals, 2);
        const std::int32_t integers[] = {3, 4, 5};
        gguf_set_arr_data(file.get(), "integers", GGUF_TYPE_INT32, integers, 3);
        const char* texts[] = {"a", "b"};
        gguf_set_arr_str(file.get(), "texts", texts, 2);
        Context context = must(Context::make());
        const Tensor tensor = context.tensor(GGML_TYPE_F32, {4}, "tensor");
        const Buffer buffer = must(Buffer::for_all(context, must(Device::cpu())));
        must(write<float>(tensor, {1, 2, 3, 4}));
        gguf_add_tensor(file.get(), tensor.c());
        ASSERT_TRUE(gguf_write_to_file(file.get(), path.c_str(), false));
    }
    void TearDown() override { std::filesystem::remove(path); }

    const std::string path = testing::TempDir() + "heddle_api_" +
                             testing::UnitTest::GetInstance()->current_test_info()->name() +
                             ".gguf";
};

TEST_F(ModelFiles, GiveValuesByTheirKind) {
    const ModelFile file = must(ModelFile::open(path));
    EXPECT_EQ(must(file.text("text")), "hello");
    EXPECT_EQ(must(file.integer("number")), 7);
    EXPECT_EQ(must(file.integer("below")), -3);
    EXPECT_EQ(must(file.real("real")), 0.5);
    EXPECT_TRUE(must(file.flag("flag")));
    EXPECT_THAT(must(file.reals("reals")), ElementsAre(1, 2));
    EXPECT_THAT(must(file.integers("integers")), ElementsAre(3, 4, 5));
    EXPECT_THAT(must(file.texts("texts")), ElementsAre("a", "b"));
    EXPECT_TRUE(file.has("flag"));
    EXPECT_FALSE(file.has("flags"));
}

TEST_F(ModelFiles, SayWhatIsMissingOrOfAnotherKind) {
    const ModelFile file = must(ModelFile::open(path));
    EXPECT_EQ(said(file.text("title")), path + ": has no 'title'");
    EXPECT_EQ(said(file.integer("text")), path + ": 'text' is of type str, not a whole number");
    EXPECT_EQ(said(file.text("number")), path + ": 'number' is of type u32, not text");
    EXPECT_THAT(said(file.integer("huge")), HasSubstr("'huge' is 18446744073709551615"));
    EXPECT_THAT(said(file.reals("integers")), HasSubstr("not a list of f32"));
}

TEST_F(ModelFiles, MapTheirTensors) {
    const ModelFile file = must(ModelFile::open(path));
    EXPECT_EQ(file.tensor_count(), 1);
    ASSERT_NE(file.find("tensor"), nullptr);
    EXPECT_EQ(file.find("other"), nullptr);
    const auto* data = reinterpret_cast<const float*>(file.data_of(*file.find("tensor")));
    EXPECT_THAT(std::vector(data, data + 4), ElementsAre(1, 2, 3, 4));
}

TEST_F(ModelFiles, ThatAreCutShortAreRefused) {
    const auto size = std::filesystem::file_size(path);
    for (const std::uintmax_t keep : {std::uintmax_t{0}, std::uintmax_t{3}, size / 2, size - 17}) {
        std::filesystem::resize_file(path, keep);
        const auto file = ModelFile::open(path);
        ASSERT_FALSE(file) << keep;
        EXPECT_FALSE(file.error().message.empty());
        TearDown();
        SetUp();
    }
}

TEST_F(ModelFiles, ThatAreSomethingElseAreRefused) {
    std::ofstream(path) << "This is a letter, not a model.";
    EXPECT_THAT(said(ModelFile::open(path)), testing::StartsWith(path + ": gguf: at byte "));
}

TEST_F(ModelFiles, ThatAreNotThereAreNamed) {
    const auto file = ModelFile::open(path + ".missing");
    ASSERT_FALSE(file);
    EXPECT_EQ(file.error().code, Errc::not_found);
    EXPECT_THAT(file.error().message, HasSubstr(".missing"));
    EXPECT_THAT(file.error().message, HasSubstr("No such file"));
    EXPECT_EQ(said(ModelFile::open(testing::TempDir())), testing::TempDir() + ": is not a file");
}

TEST(ShippedModel, IsWhatItIsSaidToBe) {
    const ModelFile file = must(ModelFile::open(HEDDLE_MODEL));
    EXPECT_EQ(must(file.text("general.architecture")), "llama");
    EXPECT_EQ(must(file.integer("llama.block_count")), 8);
    EXPECT_EQ(file.find("blk.0.attn_q.weight")->type, GGML_TYPE_Q8_0);
    EXPECT_EQ(must(file.texts("tokenizer.ggml.tokens")).size(), 4096u);
}

}  // namespace
}  // namespace heddle
