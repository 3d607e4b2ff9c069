#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/context.hpp"
#include "gguf.h"

namespace heddle::golden {

/// Keys and tensors of an open file, read with the type they must have.
class Metadata {
public:
    static Result<Metadata> open(const std::string& path);

    bool has(const std::string& key) const { return find(key) >= 0; }

    Result<std::string> string(const std::string& key) const;
    Result<std::vector<std::string>> strings(const std::string& key) const;
    Result<std::uint32_t> u32(const std::string& key) const;
    Result<std::uint64_t> u64(const std::string& key) const;
    Result<std::int32_t> i32(const std::string& key) const;
    Result<float> f32(const std::string& key) const;

    template <class T>
    Result<std::vector<T>> array(const std::string& key) const;

    /// The tensor of that name with its data, or null.
    const Tensor* tensor(const std::string& name) const {
        return ggml_get_tensor(data_.get(), name.c_str());
    }

private:
    struct Free {
        void operator()(gguf_context* file) const { gguf_free(file); }
        void operator()(Context* context) const { ggml_free(context); }
    };

    std::int64_t find(const std::string& key) const {
        return gguf_find_key(file_.get(), key.c_str());
    }
    Result<std::int64_t> find(const std::string& key, gguf_type type) const;
    Result<std::int64_t> find_array(const std::string& key, gguf_type type) const;

    std::unique_ptr<gguf_context, Free> file_;
    std::unique_ptr<Context, Free> data_;
};

}  // namespace heddle::golden
