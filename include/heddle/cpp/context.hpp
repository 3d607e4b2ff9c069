/// Tensors and the contexts that describe them. Part of `heddle/heddle.hpp`.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "../../ggml-cpp.h"
#include "failure.hpp"

namespace heddle::api {

class Context;
class Tensor;

namespace detail {

/// Nodes that a graph of so many tensors is made for: weights lie in other contexts.
inline std::size_t graph_capacity(std::size_t tensors) { return 2 * tensors + 64; }

/// What a context and the handles of its tensors share.
struct Scope {
    ggml_context_ptr context;
    std::string failure;    ///< of the first op that could not be built; empty if all could
    bool is_store = false;  ///< no room for ops: they go to the context of another operand

    /// Keeps the first failure: those that follow come from it.
    void keep_failure() {
        if (failure.empty()) failure = heddle_last_error();
    }
    /// An op that cannot be, for a reason of our own.
    Tensor refuse(std::string reason);
};

}  // namespace detail

/// A tensor of a context: a light handle, valid as long as the context.
///
/// The result of an op that could not be built is an empty handle, and so is everything computed
/// from it. The first reason is kept: `Graph::of` and `Context::check` give it.
class Tensor {
public:
    Tensor() = default;
    Tensor(detail::Scope& scope, ggml_tensor* tensor) : scope_(&scope), tensor_(tensor) {}

    explicit operator bool() const { return tensor_ != nullptr; }
    ggml_tensor* c() const { return tensor_; }
    detail::Scope& scope() const { return *scope_; }
    bool has_scope() const { return scope_ != nullptr; }

    // Of an empty handle all of these are 0 or empty, so that code that builds a graph need not
    // check every step.
    ggml_type type() const { return tensor_ ? tensor_->type : GGML_TYPE_COUNT; }
    std::int64_t extent(int dimension) const { return tensor_ ? tensor_->ne[dimension] : 0; }
    std::size_t stride(int dimension) const {
        return tensor_ ? tensor_->nb[dimension] : 0;
    }  ///< bytes
    std::array<std::int64_t, 4> extents() const {
        return {extent(0), extent(1), extent(2), extent(3)};
    }
    std::int64_t elements() const { return tensor_ ? ggml_nelements(tensor_) : 0; }
    std::size_t bytes() const { return tensor_ ? ggml_nbytes(tensor_) : 0; }
    std::string_view name() const { return tensor_ ? ggml_get_name(tensor_) : ""; }

    /// Names the tensor and gives it back: `Tensor y = silu(x).named("y");`
    Tensor named(const std::string& name) const {
        if (tensor_ != nullptr) ggml_set_name(tensor_, name.c_str());
        return *this;
    }

    /// Written by the program before each run: gets memory on the host, before everything else.
    Tensor as_input() const {
        if (tensor_ != nullptr) ggml_set_input(tensor_);
        return *this;
    }
    /// Read by the program after the run: its memory is not used for anything else.
    Tensor as_output() const {
        if (tensor_ != nullptr) ggml_set_output(tensor_);
        return *this;
    }

private:
    detail::Scope* scope_ = nullptr;
    ggml_tensor* tensor_ = nullptr;
};

inline Tensor detail::Scope::refuse(std::string reason) {
    if (failure.empty()) failure = std::move(reason);
    return {*this, nullptr};
}

/// Holds the descriptions of tensors and graphs, not their data.
class Context {
public:
    /// Room for so many tensors, and for two graphs of them all.
    static Result<Context> make(std::size_t tensors = 2048) {
        if (tensors > kMostTensors) {
            return invalid("a context for ", tensors, " tensors; at most ", kMostTensors);
        }
        const std::size_t size =
            tensors * ggml_tensor_overhead() +
            2 * ggml_graph_overhead_custom(detail::graph_capacity(tensors), false);
        auto* made = detail::call(
            [&] { return ggml_init({.mem_size = size, .mem_buffer = nullptr, .no_alloc = true}); });
        if (made == nullptr) {
            return detail::last_failure(Errc::out_of_memory, "no memory for a context");
        }
        auto scope = std::make_unique<detail::Scope>();
        scope->context.reset(made);
        return Context(std::move(scope));
    }

    /// Room for so many tensors that are given: weights, caches. Ops on them are written down in
    /// the context of their other operands.
    static Result<Context> make_store(std::size_t tensors) {
        HEDDLE_TRY_ASSIGN(Context context, make(tensors));
        context.scope_->is_store = true;
        return context;
    }

    /// A tensor without data yet. Extents are given fastest first; those left out are 1.
    Tensor tensor(ggml_type type, std::initializer_list<std::int64_t> extents,
                  const std::string& name = {}) {
        return tensor(type, std::span(extents.begin(), extents.size()), name);
    }
    Tensor tensor(ggml_type type, std::span<const std::int64_t> extents,
                  const std::string& name = {}) {
        auto* made = detail::call([&] {
            return ggml_new_tensor(c(), type, static_cast<int>(extents.size()), extents.data());
        });
        if (made == nullptr) scope_->keep_failure();
        return Tensor(*scope_, made).named(name);
    }

    /// A handle for a tensor of the C API, or of a store, whose ops are to be written down here.
    Tensor wrap(ggml_tensor* tensor) { return {*scope_, tensor}; }

    /// Fails with the reason if an op could not be built.
    Result<> check() const {
        if (!scope_->failure.empty()) return invalid(scope_->failure);
        return ok();
    }

    /// Forgets all tensors and graphs, and what failed: the room is free again.
    void reset() {
        ggml_reset(c());
        scope_->failure.clear();
    }

    std::size_t tensors() const {  ///< how many it holds
        std::size_t count = 0;
        for (ggml_tensor* each = ggml_get_first_tensor(c()); each != nullptr;
             each = ggml_get_next_tensor(c(), each)) {
            ++count;
        }
        return count;
    }

    ggml_context* c() const { return scope_->context.get(); }
    detail::Scope& scope() const { return *scope_; }

private:
    static constexpr std::size_t kMostTensors = std::size_t{1} << 24;

    explicit Context(std::unique_ptr<detail::Scope> scope) : scope_(std::move(scope)) {}

    std::unique_ptr<detail::Scope> scope_;
};

// ---- data --------------------------------------------------------------------------------------

namespace detail {

/// Whether elements of C++ type T can be those of a tensor of `type`. Types that are no numbers,
/// such as std::byte, stand for raw bytes of any type.
template <class T>
constexpr bool holds(ggml_type type) {
    if constexpr (std::is_same_v<T, float>) return type == GGML_TYPE_F32;
    if constexpr (std::is_same_v<T, double>) return type == GGML_TYPE_F64;
    if constexpr (std::is_same_v<T, std::int64_t>) return type == GGML_TYPE_I64;
    if constexpr (std::is_same_v<T, std::int32_t>) return type == GGML_TYPE_I32;
    if constexpr (std::is_same_v<T, std::int16_t>) return type == GGML_TYPE_I16;
    if constexpr (std::is_same_v<T, ggml_fp16_t>) return type == GGML_TYPE_F16;
    if constexpr (std::is_same_v<T, ggml_bf16_t>) return type == GGML_TYPE_BF16;
    return true;
}

template <class T>
Result<> check_data(const Tensor& tensor, std::size_t bytes, const char* doing) {
    if (!tensor) return invalid(doing, " a tensor that could not be built");
    if (!holds<T>(tensor.type())) {
        return invalid(doing, " '", tensor.name(), "': its elements are ",
                       ggml_type_name(tensor.type()), ", not what was given");
    }
    if (!ggml_is_contiguous(tensor.c())) {
        return invalid(doing, " '", tensor.name(),
                       "': its elements do not lie one after the other; contiguous() makes them");
    }
    if (bytes != tensor.bytes()) {
        return invalid(doing, " '", tensor.name(), "': ", bytes,
                       " bytes were given, the tensor has ", tensor.bytes());
    }
    return ok();
}

}  // namespace detail

/// Writes all elements, wherever the tensor is.
template <class T>
Result<> write(const Tensor& tensor, std::span<const T> values) {
    HEDDLE_TRY(detail::check_data<T>(tensor, values.size_bytes(), "writing"));
    detail::call([&] {
        ggml_backend_tensor_set(tensor.c(), values.data(), 0, values.size_bytes());
        return 0;
    });
    return detail::check_said(Errc::device);
}
template <class T>
Result<> write(const Tensor& tensor, const std::vector<T>& values) {
    return write<T>(tensor, std::span<const T>(values));
}
template <class T>
Result<> write(const Tensor& tensor, std::initializer_list<T> values) {
    return write<T>(tensor, std::span<const T>(values.begin(), values.size()));
}

/// Reads all elements into `values`.
template <class T>
Result<> read(const Tensor& tensor, std::span<T> values) {
    HEDDLE_TRY(detail::check_data<T>(tensor, values.size_bytes(), "reading"));
    detail::call([&] {
        ggml_backend_tensor_get(tensor.c(), values.data(), 0, values.size_bytes());
        return 0;
    });
    return detail::check_said(Errc::device);
}

/// All elements.
template <class T>
Result<std::vector<T>> read(const Tensor& tensor) {
    if (!tensor) return invalid("reading a tensor that could not be built");
    std::vector<T> values(tensor.bytes() / sizeof(T));
    HEDDLE_TRY(read<T>(tensor, std::span<T>(values)));
    return values;
}

}  // namespace heddle::api
