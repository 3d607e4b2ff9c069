#include "small_model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "ggml-cpp.h"
#include "ggml.h"
#include "gguf.h"

namespace heddle::cli_test {
namespace {

constexpr int kBytes = 256, kSpecial = 3, kPieces = kSpecial + kBytes;

/// <unk>, <s>, </s>, then every byte.
void add_vocabulary(gguf_context* file, const std::string& tokenizer) {
    std::vector<std::string> pieces{"<unk>", "<s>", "</s>"};
    std::vector<std::int32_t> kinds{2, 3, 3};
    for (int i = 0; i < kBytes; ++i) {
        char name[8];
        std::snprintf(name, sizeof name, "<0x%02X>", static_cast<unsigned>(i));
        pieces.emplace_back(name);
        kinds.push_back(6);
    }
    std::vector<const char*> texts;
    for (const std::string& piece : pieces) texts.push_back(piece.c_str());
    const std::vector<float> scores(pieces.size());
    gguf_set_val_str(file, "tokenizer.ggml.model", tokenizer.c_str());
    gguf_set_arr_str(file, "tokenizer.ggml.tokens", texts.data(), texts.size());
    gguf_set_arr_data(file, "tokenizer.ggml.scores", GGUF_TYPE_FLOAT32, scores.data(),
                      scores.size());
    gguf_set_arr_data(file, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, kinds.data(),
                      kinds.size());
    gguf_set_val_u32(file, "tokenizer.ggml.unknown_token_id", 0);
    gguf_set_val_u32(file, "tokenizer.ggml.bos_token_id", 1);
    gguf_set_val_u32(file, "tokenizer.ggml.eos_token_id", 2);
}

}  // namespace

void SmallModel::write(const std::string& path) const {
    const gguf_context_ptr file(gguf_init_empty());
    gguf_set_val_str(file.get(), "general.architecture", architecture.c_str());
    const auto number = [&](const char* key, std::int64_t value) {
        gguf_set_val_u32(file.get(), (std::string("llama.") + key).c_str(),
                         static_cast<std::uint32_t>(value));
    };
    number("block_count", kLayers);
    number("embedding_length", kWidth);
    number("feed_forward_length", hidden);
    number("attention.head_count", kHeads);
    number("attention.head_count_kv", kKvHeads);
    number("context_length", kContext);
    add_vocabulary(file.get(), tokenizer);
    if (!chat_template.empty()) {
        gguf_set_val_str(file.get(), "tokenizer.chat_template", chat_template.c_str());
    }

    const ggml_context_ptr context(
        ggml_init({.mem_size = 4 << 20, .mem_buffer = nullptr, .no_alloc = false}));
    std::mt19937 random(7);
    const auto add = [&](const std::string& name, std::int64_t columns, std::int64_t rows) {
        if (name == left_out) return;
        ggml_tensor* tensor = rows > 0
                                  ? ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, columns, rows)
                                  : ggml_new_tensor_1d(context.get(), GGML_TYPE_F32, columns);
        ggml_set_name(tensor, name.c_str());
        // Norms stand around 1, matrices around 0.
        std::uniform_real_distribution<float> values(rows > 0 ? -0.5f : 0.8f,
                                                     rows > 0 ? 0.5f : 1.2f);
        auto* data = static_cast<float*>(tensor->data);
        for (std::int64_t i = 0; i < ggml_nelements(tensor); ++i) data[i] = values(random);
        gguf_add_tensor(file.get(), tensor);
    };
    const std::int64_t kv_width = kWidth / kHeads * kKvHeads;
    add("token_embd.weight", kWidth, kPieces);
    add("output_norm.weight", kWidth, 0);
    for (std::int64_t i = 0; i < kLayers; ++i) {
        const std::string layer = "blk." + std::to_string(i) + ".";
        add(layer + "attn_norm.weight", kWidth, 0);
        add(layer + "attn_q.weight", kWidth, kWidth);
        add(layer + "attn_k.weight", kWidth, kv_width);
        add(layer + "attn_v.weight", kWidth, kv_width);
        add(layer + "attn_output.weight", kWidth, kWidth);
        add(layer + "ffn_norm.weight", kWidth, 0);
        add(layer + "ffn_gate.weight", kWidth, hidden);
        add(layer + "ffn_up.weight", kWidth, i == 1 ? up_hidden : hidden);
        add(layer + "ffn_down.weight", hidden, kWidth);
    }
    if (!rope_extents.empty()) {
        ggml_tensor* factors = ggml_new_tensor(
            context.get(), rope_type, static_cast<int>(rope_extents.size()), rope_extents.data());
        ggml_set_name(factors, "rope_freqs.weight");
        if (rope_type == GGML_TYPE_F32) {
            std::fill_n(static_cast<float*>(factors->data), ggml_nelements(factors), 1.0f);
        }
        gguf_add_tensor(file.get(), factors);
    }
    ASSERT_TRUE(gguf_write_to_file(file.get(), path.c_str(), false)) << path;
}

void copy_changed(const std::string& from, const std::string& to,
                  const std::function<void(gguf_context*, ggml_context*)>& change) {
    ggml_context* tensors = nullptr;
    const gguf_context_ptr file(
        gguf_init_from_file(from.c_str(), {.no_alloc = false, .ctx = &tensors}));
    const ggml_context_ptr owner(tensors),
        more(ggml_init({.mem_size = 8 << 20, .mem_buffer = nullptr, .no_alloc = false}));
    ASSERT_NE(file, nullptr) << from;
    for (std::int64_t i = 0; i < gguf_get_n_tensors(file.get()); ++i) {
        const char* name = gguf_get_tensor_name(file.get(), i);
        gguf_set_tensor_data(file.get(), name, ggml_get_tensor(tensors, name)->data);
    }
    change(file.get(), more.get());
    ASSERT_TRUE(gguf_write_to_file(file.get(), to.c_str(), false)) << to;
}

}  // namespace heddle::cli_test
