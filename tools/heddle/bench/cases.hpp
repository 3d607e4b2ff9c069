#pragma once

#include <array>
#include <functional>
#include <initializer_list>
#include <span>
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
        bool is_weight = false;
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
    bool usual = true;         ///< of the ops that take most of the time in most models
};

/// The kinds of models that shapes are taken from.
inline constexpr std::array kModels{"llm", "speech", "vision"};

/// What cases to make.
struct Wish {
    std::string model = "llm";     ///< one of `kModels`
    std::vector<ggml_type> types;  ///< empty: those that matter most
    bool quick = false;            ///< smaller

    std::vector<ggml_type> types_or(std::vector<ggml_type> usual_ones) const {
        return types.empty() ? std::move(usual_ones) : types;
    }
};

/// A line of a table of ops that run at one size, which `--quick` makes smaller.
struct SizedOp {
    using Build = ggml_tensor* (*)(Inputs&, std::int64_t size, ggml_type type);
    enum class Beside { copy, peak };  ///< what it is compared with

    const char* op;
    const char* model;
    const char* shape;  ///< in words, with {0} for the size
    std::int64_t size, quick_size;
    Beside beside;
    Build build;
    bool usual = false;
    ggml_type type = GGML_TYPE_F32;
};

/// Those lines of a table that are for the model wished for.
std::vector<Case> cases_of(std::span<const SizedOp> table, const Wish& wish);

std::vector<Case> product_cases(const Wish& wish);
std::vector<Case> attention_cases(const Wish& wish);
std::vector<Case> row_cases(const Wish& wish);
std::vector<Case> copy_cases(const Wish& wish);
std::vector<Case> recurrent_cases(const Wish& wish);
std::vector<Case> image_cases(const Wish& wish);
std::vector<Case> training_cases(const Wish& wish);

/// All of the above that are of the types wished for.
std::vector<Case> all_cases(const Wish& wish);

/// An op of the catalogue that no case measures.
struct Unmeasured {
    ggml_op op;
    const char* reason;
};
std::span<const Unmeasured> unmeasured_ops();

}  // namespace heddle::tool::bench
