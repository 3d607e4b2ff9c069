#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "core/context.hpp"
#include "core/error.hpp"
#include "core/tensor.hpp"

/// The operation catalogue: one descriptor per op holds everything that is true of it on all
/// backends. `all.hpp` lists them; building, printing, checking, costs and the page of ops read
/// them.
namespace heddle {

/// The operands of a node, by slot. Optional ones may be absent.
class Sources {
public:
    Sources(std::span<Tensor* const> tensors) : tensors_(tensors) {}

    std::size_t size() const { return tensors_.size(); }
    bool has(std::size_t slot) const { return slot < tensors_.size() && tensors_[slot] != nullptr; }

    /// A required operand, or an optional one that `has` said is there.
    const Tensor& operator[](std::size_t slot) const { return *tensors_[slot]; }

private:
    std::span<Tensor* const> tensors_;
};

/// What computing a node takes, in floating point operations and bytes moved.
struct Cost {
    double flops = 0;
    double bytes = 0;
};

/// A transcendental function counts as this many operations.
inline constexpr double kTranscendental = 10;

/// One named parameter: where it stands in op_params and how to read it.
struct ParamField {
    enum class Kind { i32, f32, size, pointer };
    std::string_view name;
    int word;
    Kind kind = Kind::i32;
};

/// For ops without parameters.
struct NoParams {};

/// Gradients of a graph while they are built; `backward_builder.hpp` has it for the rules of ops.
class Backward;

/// A descriptor is a struct with these static members; `roll.hpp` shows a complete one.
///
///     id, name, symbol     the op, its name, and its short form in drawings
///     summary              one sentence for the page of ops
///     sources              names of the operands in slot order; a trailing '?' marks optional ones
///     Params               what is stored in op_params, laid out as it is stored
///     infer(args, src)     the result's spec, or why there is none
///
/// and, where they apply:
///
///     may_be_empty         bit i: source i may have no elements although the result has some
///     may_be_itself        bit i: source i may be the node itself: it is not read
///     fields               names of the parameters, for printing (std::array of ParamField)
///     Args                 what the builder is given beyond the stored `params`, such as a shape
///     recover(node)        the Args a finished node was built from; needed with Args
///     cost(params, src, out)
///     can_run_in_place     the builder has an in-place form: the result is a view of source 0
///     may_reuse_source     an allocator may give the result the memory of a source of equal layout
///     is_view              only metadata: nothing is computed; has_free_strides: of the result
///     name_result(out, src)
///     carries_gradient(node, slot)   false: a change of that operand does not change the result,
///                                    or only in steps
///     gradient(backward, node)       gives each operand its part of the node's gradient; rules
///                                    are in gradients_*.cpp
template <class D>
concept Descriptor = requires {
    { D::id } -> std::convertible_to<Op>;
    { D::name } -> std::convertible_to<std::string_view>;
    { D::symbol } -> std::convertible_to<std::string_view>;
    { D::summary } -> std::convertible_to<std::string_view>;
    D::sources.size();
    typename D::Params;
    D::infer;
};

template <Descriptor D>
struct ArgsOf {
    using type = typename D::Params;
    static const typename D::Params& params(const type& args) { return args; }
};
template <Descriptor D>
requires requires { typename D::Args; }
struct ArgsOf<D> {
    using type = typename D::Args;
    static const typename D::Params& params(const type& args) { return args.params; }
};

/// What the builder of `D` is called with, besides the operands.
template <Descriptor D>
using Args = typename ArgsOf<D>::type;

/// A descriptor as data, for code that treats all ops alike.
struct OpInfo {
    Op id = kNoOp;
    std::string_view name, symbol, summary;
    std::span<const char* const> sources;
    std::span<const ParamField> fields;
    std::size_t param_bytes = 0;  ///< 0: none
    bool can_run_in_place = false;
    bool may_reuse_source = false;
    bool is_view = false;

    /// Spec of the result from the builder's arguments (an `Args<D>`).
    Result<TensorSpec> (*infer)(const void* args, Sources src) = nullptr;
    /// Spec that the op, parameters and sources of an existing node call for.
    Result<TensorSpec> (*infer_node)(const Tensor& node) = nullptr;
    Cost (*cost)(const Tensor& node) = nullptr;
    void (*name_result)(Tensor& out, Sources src) = nullptr;  ///< null: unnamed, views "<x> (view)"
    bool (*carries_gradient)(const Tensor& node, std::size_t slot) = nullptr;  ///< null: all do
    Result<> (*gradient)(Backward& backward, Tensor& node) = nullptr;          ///< null: no rule
};

/// Bytes of everything a node reads and writes: the cost of ops that only move data.
double bytes_touched(const Tensor& node);

inline Sources sources_of(const Tensor& node) { return {std::span(node.src)}; }

template <Descriptor D>
constexpr OpInfo describe_op() {
    using P = typename D::Params;
    static_assert(std::is_trivially_copyable_v<P> && sizeof(P) <= GGML_MAX_OP_PARAMS);
    OpInfo info;
    info.id = D::id;
    info.name = D::name;
    info.symbol = D::symbol;
    info.summary = D::summary;
    info.sources = D::sources;
    info.param_bytes = std::is_empty_v<P> ? 0 : sizeof(P);
    info.infer = [](const void* args, Sources src) {
        return D::infer(*static_cast<const Args<D>*>(args), src);
    };
    info.infer_node = [](const Tensor& node) {
        if constexpr (requires { D::recover(node); }) {
            return D::infer(D::recover(node), sources_of(node));
        } else {
            return D::infer(unpack<P>(node), sources_of(node));
        }
    };
    info.cost = [](const Tensor& node) {
        if constexpr (requires { D::cost(P{}, sources_of(node), node); }) {
            return D::cost(unpack<P>(node), sources_of(node), node);
        } else {
            return Cost{.flops = 0, .bytes = bytes_touched(node)};
        }
    };
    if constexpr (requires { D::fields; }) info.fields = D::fields;
    if constexpr (requires { D::can_run_in_place; }) info.can_run_in_place = D::can_run_in_place;
    if constexpr (requires { D::may_reuse_source; }) info.may_reuse_source = D::may_reuse_source;
    if constexpr (requires { D::is_view; }) info.is_view = D::is_view;
    if constexpr (requires { D::name_result; }) info.name_result = D::name_result;
    if constexpr (requires { D::carries_gradient; }) info.carries_gradient = D::carries_gradient;
    if constexpr (requires { D::gradient; }) info.gradient = D::gradient;
    return info;
}

/// The descriptor as data, one object per op.
template <Descriptor D>
inline constexpr OpInfo kOpInfo = describe_op<D>();

}  // namespace heddle
