#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "bench/content.hpp"

namespace heddle::tool::bench {

/// Hands out the operands of a graph that computes the same op several times.
class Inputs {
public:
    struct Leaf {
        ggml_tensor* tensor;
        Content content;
    };

    explicit Inputs(ggml_context* context) : context_(context) {}

    ggml_context* context() const { return context_; }

    /// The same tensor each time.
    ggml_tensor* input(ggml_type type, std::initializer_list<std::int64_t> extents,
                       const Content& content = {});
    /// Another one each time if weights are to come from memory, the same one otherwise.
    ggml_tensor* weights(ggml_type type, std::initializer_list<std::int64_t> extents);

    /// The next time begins.
    void begin_again(bool with_new_weights) {
        next_ = 0;
        new_weights_ = with_new_weights;
    }
    const std::vector<Leaf>& leaves() const { return leaves_; }
    std::size_t weight_bytes() const { return weight_bytes_; }  ///< of all made so far

private:
    ggml_tensor* make(ggml_type type, std::initializer_list<std::int64_t> extents,
                      const Content& content);

    ggml_context* context_;
    std::vector<Leaf> leaves_;
    std::vector<ggml_tensor*> first_;  ///< operands of the first time, in order
    std::size_t next_ = 0, weight_bytes_ = 0;
    bool new_weights_ = false;
};

/// One op at one shape.
struct Case {
    std::string op;
    std::string type;     ///< in words, such as "f32->f16"
    ggml_type main_type;  ///< the one of `type` that the user may choose
    std::string shape;
    std::function<ggml_tensor*(Inputs&)> build;
    bool from_memory = false;  ///< weights are new each time: no cache holds them
    bool beside_copy = false;  ///< is to be compared with a copy of as many bytes
};

/// What cases to make.
struct Wish {
    std::string shapes = "llm";
    std::vector<ggml_type> types;  ///< empty: those that matter most
    bool quick = false;            ///< smaller
};

std::vector<Case> product_cases(const Wish& wish);
std::vector<Case> attention_cases(const Wish& wish);
std::vector<Case> row_cases(const Wish& wish);
std::vector<Case> copy_cases(const Wish& wish);
std::vector<Case> recurrent_cases(const Wish& wish);
std::vector<Case> image_cases(const Wish& wish);

/// All of the above that are of the types wished for.
std::vector<Case> all_cases(const Wish& wish);

}  // namespace heddle::tool::bench
