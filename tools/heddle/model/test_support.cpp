#include "model/test_support.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

namespace heddle::tool {
namespace {

using Kind = Vocabulary::Kind;

void set_texts(gguf_context* file, const char* key, const std::vector<std::string>& texts) {
    std::vector<const char*> pointers;
    for (const std::string& each : texts) pointers.push_back(each.c_str());
    gguf_set_arr_str(file, key, pointers.data(), pointers.size());
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> read(const Description& what) {
    const gguf_context_ptr file(gguf_init_empty());
    const auto key = [](const char* name) { return std::string("tokenizer.ggml.") + name; };
    gguf_set_val_str(file.get(), key("model").c_str(), what.model.c_str());
    gguf_set_val_str(file.get(), key("pre").c_str(), what.pre.c_str());
    set_texts(file.get(), key("tokens").c_str(), what.pieces);
    if (!what.merges.empty()) set_texts(file.get(), key("merges").c_str(), what.merges);
    std::vector<std::int32_t> kinds(what.pieces.size(), static_cast<std::int32_t>(Kind::normal));
    for (std::size_t i = 0; i < what.kinds.size(); ++i) {
        kinds[i] = static_cast<std::int32_t>(what.kinds[i]);
    }
    gguf_set_arr_data(file.get(), key("token_type").c_str(), GGUF_TYPE_INT32, kinds.data(),
                      kinds.size());
    if (!what.scores.empty()) {
        gguf_set_arr_data(file.get(), key("scores").c_str(), GGUF_TYPE_FLOAT32, what.scores.data(),
                          what.scores.size());
    }
    for (const auto& [name, token] : what.tokens) {
        gguf_set_val_u32(file.get(), key(name).c_str(), token);
    }
    for (const auto& [name, flag] : what.flags) {
        gguf_set_val_bool(file.get(), key(name).c_str(), flag);
    }
    const std::string path = testing::TempDir() + "tokenizer-" + std::to_string(getpid()) + ".gguf";
    EXPECT_TRUE(gguf_write_to_file(file.get(), path.c_str(), true));
    HEDDLE_TRY_ASSIGN(const ModelFile opened, ModelFile::open(path));
    auto tokenizer = Tokenizer::of(opened);
    std::filesystem::remove(path);
    return tokenizer;
}

std::unique_ptr<Tokenizer> make(const Description& what) {
    auto tokenizer = read(what);
    EXPECT_TRUE(tokenizer) << tokenizer.error().message;
    return tokenizer ? *std::move(tokenizer) : nullptr;
}

Description byte_pairs(const std::vector<std::string>& merges, const std::string& pre) {
    Description what;
    what.pre = pre;
    what.pieces = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
    what.kinds = {Kind::control, Kind::control, Kind::control};
    int next = 256;
    for (int byte = 0; byte < 256; ++byte) {
        const bool as_it_is = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
        const int code = as_it_is ? byte : next++;
        std::string piece;
        if (code < 128) {
            piece = static_cast<char>(code);
        } else {
            piece = {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 63))};
        }
        what.pieces.push_back(piece);
    }
    what.merges = merges;
    for (std::string merge : merges) {
        merge.erase(merge.find(' '), 1);
        what.pieces.push_back(merge);
    }
    return what;
}

Description sentencepiece(const std::vector<std::pair<std::string, float>>& pieces,
                          bool with_bytes) {
    Description what;
    what.model = "llama";
    what.pieces = {"<unk>", "<s>", "</s>"};
    what.kinds = {Kind::unknown, Kind::control, Kind::control};
    for (int i = 0; i < 256 && with_bytes; ++i) {
        constexpr char kDigits[] = "0123456789ABCDEF";
        what.pieces.push_back(std::string("<0x") + kDigits[i / 16] + kDigits[i % 16] + ">");
        what.kinds.push_back(Kind::byte);
    }
    what.scores.assign(what.pieces.size(), 0);
    for (const auto& [piece, score] : pieces) {
        what.pieces.push_back(piece);
        what.scores.push_back(score);
    }
    what.tokens = {{"unknown_token_id", 0}, {"bos_token_id", 1}, {"eos_token_id", 2}};
    return what;
}

}  // namespace heddle::tool
