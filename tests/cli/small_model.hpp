#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ggml.h"
#include "gguf.h"

namespace heddle::cli_test {

/// A model that says nothing sensible, but quickly: two layers, one token for each byte.
struct SmallModel {
    std::string architecture = "llama";  ///< what the file says; its keys are llama's
    std::int64_t hidden = 64;            ///< of the file's metadata
    std::int64_t up_hidden = 64;         ///< of blk.1.ffn_up.weight: another one is wrong
    std::string left_out = "";           ///< a tensor that is missing
    /// Of rope_freqs.weight, which is not there if this is empty.
    std::vector<std::int64_t> rope_extents = {};
    ggml_type rope_type = GGML_TYPE_F32;
    std::string tokenizer = "llama";
    std::string chat_template = "";  ///< none if empty

    void write(const std::string& path) const;

    static constexpr std::int64_t kLayers = 2, kWidth = 32, kHeads = 4, kKvHeads = 2, kContext = 64;
};

/// A copy of a model file with some keys set, or tensors added, by `change`.
void copy_changed(const std::string& from, const std::string& to,
                  const std::function<void(gguf_context*, ggml_context*)>& change);

}  // namespace heddle::cli_test
