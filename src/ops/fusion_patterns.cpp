#include "ops/fusion_patterns.hpp"

#include <algorithm>
#include <bit>

#include "ggml/op_list.h"
#include "ggml/ops_nn.h"
#include "ops/glu.hpp"
#include "ops/rope.hpp"
#include "ops/scale.hpp"
#include "ops/soft_max.hpp"
#include "ops/unary.hpp"

namespace heddle {
namespace {

// ---- members -----------------------------------------------------------------------------------

using Member = FusionMember;

template <class... Functions>
constexpr std::uint32_t any_of(Functions... functions) {
    return ((1u << static_cast<unsigned>(functions)) | ...);
}

/// A node that reads the member before it.
constexpr Member then(Op op) { return {.op = op}; }
constexpr Member then(ggml_unary_op function) {
    return {.op = GGML_OP_UNARY, .functions = any_of(function)};
}
/// A node that reads these members.
constexpr Member on(std::int8_t first, Op op) {
    return {.op = op, .reads = {first, kReadsNothing}};
}
constexpr Member on(std::int8_t first, std::int8_t second, Op op) {
    return {.op = op, .reads = {first, second}};
}
/// A node that reads none of them.
constexpr Member beside(Op op) { return {.op = op, .reads = {kReadsNothing, kReadsNothing}}; }
constexpr Member with_functions(std::uint32_t functions, Member member) {
    member.functions = functions;
    return member;
}
constexpr Member option(std::uint8_t number, Member member) {
    member.option = number;
    return member;
}
constexpr Member output(Member member) {
    member.is_output = true;
    return member;
}

constexpr std::uint32_t kGatedFunctions =
    any_of(GGML_GLU_OP_SWIGLU, GGML_GLU_OP_GEGLU, GGML_GLU_OP_SWIGLU_OAI);

constexpr std::array kDeltaNetState{output(then(GGML_OP_GATED_DELTA_NET)), then(GGML_OP_CPY)};

/// What follows the probabilities of a mixture's experts, which are member `p`.
template <std::int8_t p>
constexpr std::array<Member, 11> kChoice{
    on(p, GGML_OP_RESHAPE),
    option(1, on(p, GGML_OP_ADD)),
    then(GGML_OP_ARGSORT),
    output(then(GGML_OP_VIEW)),
    on(p + 1, p + 4, GGML_OP_GET_ROWS),
    option(2, then(GGML_OP_RESHAPE)),
    option(2, then(GGML_OP_SUM_ROWS)),
    option(2, then(GGML_OP_CLAMP)),
    option(2, on(p + 6, p + 8, GGML_OP_DIV)),
    option(2, then(GGML_OP_RESHAPE)),
    option(3, then(GGML_OP_SCALE)),
};
template <std::size_t... parts>
constexpr auto joined(const std::array<Member, parts>&... lists) {
    std::array<Member, (parts + ...)> all{};
    auto at = all.begin();
    ((at = std::copy(lists.begin(), lists.end(), at)), ...);
    return all;
}
constexpr auto kGateSoftMax = joined(std::array{then(GGML_OP_SOFT_MAX)}, kChoice<0>);
constexpr auto kGateSigmoid = joined(std::array{then(GGML_UNARY_OP_SIGMOID)}, kChoice<0>);
constexpr auto kGateSoftplus =
    joined(std::array{then(GGML_UNARY_OP_SOFTPLUS), then(GGML_OP_SQRT)}, kChoice<1>);
constexpr std::array kGateAfter{then(GGML_OP_ARGSORT),  output(then(GGML_OP_VIEW)),
                                then(GGML_OP_GET_ROWS), then(GGML_OP_RESHAPE),
                                then(GGML_OP_SOFT_MAX), then(GGML_OP_RESHAPE)};

constexpr std::array kRopeStore{then(GGML_OP_ROPE), then(GGML_OP_VIEW), then(GGML_OP_SET_ROWS)};
constexpr std::array kSnake{then(GGML_OP_MUL), then(GGML_OP_SIN), then(GGML_OP_SQR),
                            then(GGML_OP_MUL), then(GGML_OP_ADD)};
constexpr std::array kAdds{then(GGML_OP_ADD)};
constexpr std::array kMuls{then(GGML_OP_MUL)};

constexpr std::array kScaledGate{then(GGML_OP_MUL_MAT),
                                 then(GGML_OP_MUL),
                                 option(1, then(GGML_OP_ADD)),
                                 beside(GGML_OP_MUL_MAT),
                                 then(GGML_OP_MUL),
                                 option(1, then(GGML_OP_ADD)),
                                 with_functions(kGatedFunctions, on(2, 5, GGML_OP_GLU))};
constexpr std::array kScaledGateId{then(GGML_OP_MUL_MAT_ID),
                                   beside(GGML_OP_RESHAPE),
                                   then(GGML_OP_REPEAT),
                                   then(GGML_OP_GET_ROWS),
                                   on(0, 3, GGML_OP_MUL),
                                   option(1, then(GGML_OP_ADD_ID)),
                                   beside(GGML_OP_MUL_MAT_ID),
                                   beside(GGML_OP_RESHAPE),
                                   then(GGML_OP_REPEAT),
                                   then(GGML_OP_GET_ROWS),
                                   on(6, 9, GGML_OP_MUL),
                                   option(1, then(GGML_OP_ADD_ID)),
                                   with_functions(kGatedFunctions, on(5, 11, GGML_OP_GLU))};
constexpr std::array kGate{then(GGML_OP_MUL_MAT), option(1, then(GGML_OP_ADD)),
                           beside(GGML_OP_MUL_MAT), option(1, then(GGML_OP_ADD)),
                           with_functions(kGatedFunctions, on(1, 3, GGML_OP_GLU))};
constexpr std::array kGateId{then(GGML_OP_MUL_MAT_ID), option(1, then(GGML_OP_ADD_ID)),
                             beside(GGML_OP_MUL_MAT_ID), option(1, then(GGML_OP_ADD_ID)),
                             with_functions(kGatedFunctions, on(1, 3, GGML_OP_GLU))};
constexpr std::array kScaled{then(GGML_OP_MUL_MAT), then(GGML_OP_MUL),
                             option(1, then(GGML_OP_ADD))};
constexpr std::array kScaledId{then(GGML_OP_MUL_MAT_ID), beside(GGML_OP_RESHAPE),
                               then(GGML_OP_REPEAT),     then(GGML_OP_GET_ROWS),
                               on(0, 3, GGML_OP_MUL),    option(1, then(GGML_OP_ADD_ID))};
constexpr std::array kBiased{then(GGML_OP_MUL_MAT), then(GGML_OP_ADD)};
constexpr std::array kBiasedId{then(GGML_OP_MUL_MAT_ID), then(GGML_OP_ADD_ID)};
constexpr std::array kWeighted{then(GGML_OP_MUL_MAT_ID), then(GGML_OP_MUL)};

constexpr std::array kNormRopeStore{then(GGML_OP_RMS_NORM), then(GGML_OP_MUL), then(GGML_OP_ROPE),
                                    then(GGML_OP_VIEW), then(GGML_OP_SET_ROWS)};
constexpr std::array kNormRope{then(GGML_OP_RMS_NORM), then(GGML_OP_MUL), then(GGML_OP_ROPE)};
constexpr std::array kNormMulAdd{then(GGML_OP_RMS_NORM), then(GGML_OP_MUL), then(GGML_OP_ADD)};
constexpr std::array kNormMul{then(GGML_OP_RMS_NORM), then(GGML_OP_MUL)};
constexpr std::array kNormGate{then(GGML_OP_RMS_NORM), then(GGML_OP_MUL), then(GGML_OP_MUL_MAT),
                               on(1, GGML_OP_MUL_MAT),
                               with_functions(kGatedFunctions, on(2, 3, GGML_OP_GLU))};
constexpr std::array kNormProducts{
    then(GGML_OP_RMS_NORM), output(then(GGML_OP_MUL)), output(then(GGML_OP_MUL_MAT)),
    option(1, output(on(1, GGML_OP_MUL_MAT))), option(2, output(on(1, GGML_OP_MUL_MAT)))};
constexpr std::array kAddNorm{output(then(GGML_OP_ADD)), then(GGML_OP_RMS_NORM), then(GGML_OP_MUL)};
constexpr std::array kLayerNorm{then(GGML_OP_NORM), then(GGML_OP_MUL), then(GGML_OP_ADD)};
constexpr std::array kGroupNorm{then(GGML_OP_GROUP_NORM), then(GGML_OP_MUL), then(GGML_OP_ADD)};

constexpr std::array kConvBiasSilu{then(GGML_OP_SSM_CONV), then(GGML_OP_ADD),
                                   then(GGML_UNARY_OP_SILU)};
constexpr std::array kConvSilu{then(GGML_OP_SSM_CONV), then(GGML_UNARY_OP_SILU)};
constexpr std::array kGatedUnary{
    with_functions(any_of(GGML_UNARY_OP_SILU, GGML_UNARY_OP_SIGMOID, GGML_UNARY_OP_SOFTPLUS),
                   then(GGML_OP_UNARY)),
    then(GGML_OP_MUL)};
constexpr std::array kReluSqr{then(GGML_UNARY_OP_RELU), then(GGML_OP_SQR)};
constexpr std::array kSoftcap{then(GGML_OP_SCALE), then(GGML_UNARY_OP_TANH), then(GGML_OP_SCALE)};

// ---- objections --------------------------------------------------------------------------------

using Nodes = FusionNodes;

bool all_are(const Nodes& nodes, Type type) {
    return std::ranges::all_of(
        nodes, [&](const Tensor* node) { return node == nullptr || node->type == type; });
}

std::string_view not_f32(const Nodes& nodes) {
    return all_are(nodes, GGML_TYPE_F32) ? "" : "not all results are F32";
}

std::string_view not_one_float_type(const Nodes& nodes) {
    const Type type = nodes[0]->type;
    if (type != GGML_TYPE_F32 && type != GGML_TYPE_F16) return "neither F32 nor F16";
    return all_are(nodes, type) ? "" : "results of different types";
}

/// Of the experts' probabilities: how many experts there are.
std::string_view bad_number_of_experts(const Tensor& probabilities) {
    const std::int64_t experts = probabilities.ne[0];
    if (experts == 288 || experts == 576) return "";
    const bool power = experts > 0 && std::has_single_bit(static_cast<std::uint64_t>(experts));
    return power && experts <= 512 ? "" : "number of experts is no power of two up to 512";
}

std::string_view bad_soft_max(const Tensor& node) {
    const auto params = unpack<ops::SoftMax::Params>(node);
    if (node.src[1] != nullptr || node.src[2] != nullptr) return "soft-max has a mask or sinks";
    return params.scale == 1 && params.max_bias == 0 ? "" : "soft-max has a scale or a bias";
}

std::string_view bad_soft_max_gate(const Nodes& nodes) {
    const std::string_view bad = bad_soft_max(*nodes[0]);
    return bad.empty() ? bad_number_of_experts(*nodes[0]) : bad;
}
std::string_view bad_sigmoid_gate(const Nodes& nodes) { return bad_number_of_experts(*nodes[0]); }
std::string_view bad_late_gate(const Nodes& nodes) {
    const std::string_view bad = bad_soft_max(*nodes[4]);
    return bad.empty() ? bad_number_of_experts(*nodes[0]) : bad;
}

/// Rotations of whole pairs in one of the two plain orders.
std::string_view bad_rope(const Tensor& node) {
    const std::int32_t mode = unpack<ops::Rope::Params>(node).mode;
    const bool plain = mode == GGML_ROPE_TYPE_NORMAL || mode == GGML_ROPE_TYPE_NEOX;
    return plain ? "" : "rope mode is neither NORMAL nor NEOX";
}

std::string_view bad_store(const Tensor& rope, const Tensor& store) {
    if (rope.src[0]->ne[3] != 1) return "more than one sequence";
    if (store.type != GGML_TYPE_F32 && store.type != GGML_TYPE_F16) {
        return "rows are stored as neither F32 nor F16";
    }
    return store.src[1]->type == GGML_TYPE_I64 ? "" : "row numbers are not I64";
}

std::string_view bad_rope_store(const Nodes& nodes) {
    const std::string_view bad = bad_rope(*nodes[0]);
    return bad.empty() ? bad_store(*nodes[0], *nodes[2]) : bad;
}

std::string_view bad_norm_rope(const Nodes& nodes) {
    const auto params = unpack<ops::Rope::Params>(*nodes[2]);
    if (nodes[0]->type != GGML_TYPE_F32 || nodes[2]->type != GGML_TYPE_F32) return "not F32";
    if (params.n_offs != 0) return "rope with an offset";
    if (params.n_dims % 2 != 0 || nodes[2]->ne[0] % 2 != 0) return "rope of half a pair";
    return bad_rope(*nodes[2]);
}

std::string_view bad_norm_rope_store(const Nodes& nodes) {
    const std::string_view bad = bad_norm_rope(nodes);
    return bad.empty() ? bad_store(*nodes[2], *nodes[4]) : bad;
}

std::string_view bad_snake(const Nodes& nodes) {
    const Tensor* const x = nodes[0]->src[0];
    if (nodes[4]->src[0] != x && nodes[4]->src[1] != x) return "the sum is not with x";
    return all_are(nodes, x->type) ? "" : "results are not of x's type";
}

/// Two products of the same activations (and experts) with weights alike, and their gate.
std::string_view bad_gate(const Tensor& a, const Tensor& b, const Tensor& glu) {
    if (a.src[1] != b.src[1]) return "gate and up read different activations";
    if (a.src[2] != b.src[2]) return "gate and up choose different experts";
    if (!same_layout(*a.src[0], *b.src[0])) return "weights of gate and up are not alike";
    return unpack<ops::Glu::Params>(glu).swapped == 0 ? "" : "gate and up are swapped";
}
std::string_view bad_plain_gate(const Nodes& nodes) {
    return bad_gate(*nodes[0], *nodes[2], *nodes[4]);
}
std::string_view bad_norm_gate(const Nodes& nodes) {
    return bad_gate(*nodes[2], *nodes[3], *nodes[4]);
}

std::string_view not_nvfp4(const Nodes& nodes) {
    return nodes[0]->src[0]->type == GGML_TYPE_NVFP4 ? "" : "weights are not NVFP4";
}
std::string_view bad_scaled_gate(const Nodes& nodes) {
    const std::string_view bad = not_nvfp4(nodes);
    return bad.empty() ? bad_gate(*nodes[0], *nodes[3], *nodes[6]) : bad;
}
std::string_view bad_scaled_gate_id(const Nodes& nodes) {
    const std::string_view bad = not_nvfp4(nodes);
    return bad.empty() ? bad_gate(*nodes[0], *nodes[6], *nodes[12]) : bad;
}

std::string_view bad_biased_id(const Nodes& nodes) {
    return nodes[0]->src[2] == nodes[1]->src[2] ? "" : "product and bias choose different experts";
}

std::string_view bad_products(const Nodes& nodes) {
    for (const Tensor* node : nodes) {
        const bool product = node != nullptr && node->op == GGML_OP_MUL_MAT;
        if (product && node->src[1] != nodes[1]) return "a product has the norm as its weights";
    }
    return "";
}

std::string_view bad_softcap(const Nodes& nodes) {
    if (unpack<ops::Scale::Params>(*nodes[0]).bias != 0) return "the first scale has a bias";
    if (unpack<ops::Scale::Params>(*nodes[2]).bias != 0) return "the second scale has a bias";
    return not_f32(nodes);
}

// ---- the table ---------------------------------------------------------------------------------

constexpr auto kSubgraph = FusionRule::subgraph;
constexpr auto kApart = FusionOverlap::none;

constexpr std::string_view kGateWords =
    "weights of both products alike, one layout; biases of the shape of the products";
constexpr std::string_view kChoiceWords =
    "weights and logits contiguous; the rule on overlap does not hold for one row";
constexpr std::string_view kRowWords = "rows dense";

constexpr std::array kPatterns{
    FusionPattern{.name = "delta_net_state",
                  .peer = 1,
                  .conditions = "the copy is the state behind the result, into slots of the cache",
                  .members = kDeltaNetState,
                  .rule = kSubgraph,
                  .skips_views = true,
                  .objection = not_f32},
    FusionPattern{.name = "moe_gate_soft_max",
                  .peer = 2,
                  .conditions = kChoiceWords,
                  .members = kGateSoftMax,
                  .rule = kSubgraph,
                  .overlap = kApart,
                  .objection = bad_soft_max_gate},
    FusionPattern{.name = "moe_gate_sigmoid",
                  .peer = 2,
                  .conditions = kChoiceWords,
                  .members = kGateSigmoid,
                  .rule = kSubgraph,
                  .overlap = kApart,
                  .objection = bad_sigmoid_gate},
    FusionPattern{.name = "moe_gate_sqrt_softplus",
                  .peer = 2,
                  .conditions = kChoiceWords,
                  .members = kGateSoftplus,
                  .rule = kSubgraph,
                  .overlap = kApart,
                  .objection = bad_sigmoid_gate},
    FusionPattern{.name = "moe_gate_late_soft_max",
                  .peer = 2,
                  .conditions = kChoiceWords,
                  .members = kGateAfter,
                  .rule = kSubgraph,
                  .overlap = kApart,
                  .objection = bad_late_gate},
    FusionPattern{.name = "rope_set_rows",
                  .peer = 3,
                  .conditions = "the view is contiguous, its rows are all heads of a token",
                  .members = kRopeStore,
                  .rule = kSubgraph,
                  .overlap = kApart,
                  .objection = bad_rope_store},
    FusionPattern{.name = "snake",
                  .peer = 4,
                  .conditions = "x a contiguous matrix, the factors one F32 for each of its rows",
                  .members = kSnake,
                  .objection = bad_snake},
    FusionPattern{.name = "add_run",
                  .peer = 5,
                  .conditions = "second operands of one layout",
                  .members = kAdds,
                  .longest_run = 8},
    FusionPattern{.name = "mul_run",
                  .peer = 5,
                  .conditions = "second operands of one layout",
                  .members = kMuls,
                  .longest_run = 8},
    FusionPattern{.name = "scaled_gate_up_glu",
                  .peer = 6,
                  .conditions = kGateWords,
                  .members = kScaledGate,
                  .rule = kSubgraph,
                  .overlap = kApart,
                  .one_token = true,
                  .objection = bad_scaled_gate},
    FusionPattern{.name = "scaled_gate_up_glu_id",
                  .peer = 6,
                  .conditions = kGateWords,
                  .members = kScaledGateId,
                  .rule = kSubgraph,
                  .overlap = kApart,
                  .one_token = true,
                  .objection = bad_scaled_gate_id},
    FusionPattern{.name = "gate_up_glu",
                  .peer = 7,
                  .conditions = kGateWords,
                  .members = kGate,
                  .rule = kSubgraph,
                  .overlap = kApart,
                  .one_token = true,
                  .objection = bad_plain_gate},
    FusionPattern{.name = "gate_up_glu_id",
                  .peer = 7,
                  .conditions = kGateWords,
                  .members = kGateId,
                  .rule = kSubgraph,
                  .overlap = kApart,
                  .one_token = true,
                  .objection = bad_plain_gate},
    FusionPattern{.name = "gate_up_glu_tokens",
                  .conditions = kGateWords,
                  .members = kGate,
                  .rule = kSubgraph,
                  .overlap = kApart,
                  .objection = bad_plain_gate},
    FusionPattern{.name = "gate_up_glu_id_tokens",
                  .conditions = kGateWords,
                  .members = kGateId,
                  .rule = kSubgraph,
                  .overlap = kApart,
                  .objection = bad_plain_gate},
    FusionPattern{.name = "mul_mat_scale",
                  .peer = 8,
                  .conditions = "one scale for the matrix",
                  .members = kScaled,
                  .rule = kSubgraph,
                  .overlap = kApart,
                  .one_token = true,
                  .objection = not_nvfp4},
    FusionPattern{.name = "mul_mat_id_scale",
                  .peer = 8,
                  .conditions = "one scale for each expert",
                  .members = kScaledId,
                  .rule = kSubgraph,
                  .overlap = kApart,
                  .one_token = true,
                  .objection = not_nvfp4},
    FusionPattern{.name = "mul_mat_bias",
                  .peer = 9,
                  .conditions = "bias of the result's shape",
                  .members = kBiased,
                  .one_token = true},
    FusionPattern{.name = "mul_mat_id_bias",
                  .peer = 9,
                  .conditions = "bias of the result's shape",
                  .members = kBiasedId,
                  .one_token = true,
                  .objection = bad_biased_id},
    FusionPattern{.name = "mul_mat_add", .conditions = kRowWords, .members = kBiased},
    FusionPattern{.name = "mul_mat_id_add",
                  .conditions = kRowWords,
                  .members = kBiasedId,
                  .objection = bad_biased_id},
    FusionPattern{
        .name = "mul_mat_id_mul", .conditions = "one factor for each row", .members = kWeighted},
    FusionPattern{.name = "rms_norm_mul_gate_up_glu",
                  .conditions = kGateWords,
                  .members = kNormGate,
                  .rule = kSubgraph,
                  .overlap = kApart,
                  .objection = bad_norm_gate},
    FusionPattern{.name = "rms_norm_mul_products",
                  .conditions = kRowWords,
                  .members = kNormProducts,
                  .rule = kSubgraph,
                  .overlap = kApart,
                  .skips_views = true,
                  .objection = bad_products},
    FusionPattern{.name = "rms_norm_mul_rope_set_rows",
                  .peer = 10,
                  .conditions = kRowWords,
                  .members = kNormRopeStore,
                  .rule = kSubgraph,
                  .overlap = kApart,
                  .objection = bad_norm_rope_store},
    FusionPattern{.name = "rms_norm_mul_rope",
                  .peer = 11,
                  .conditions = kRowWords,
                  .members = kNormRope,
                  .overlap = kApart,
                  .objection = bad_norm_rope},
    FusionPattern{.name = "rms_norm_mul_add",
                  .peer = 12,
                  .conditions = kRowWords,
                  .members = kNormMulAdd,
                  .objection = not_f32},
    FusionPattern{.name = "rms_norm_mul",
                  .peer = 13,
                  .conditions = kRowWords,
                  .members = kNormMul,
                  .objection = not_f32},
    FusionPattern{.name = "add_rms_norm_mul",
                  .conditions = kRowWords,
                  .members = kAddNorm,
                  .objection = not_f32},
    FusionPattern{.name = "norm_mul_add",
                  .conditions = kRowWords,
                  .members = kLayerNorm,
                  .objection = not_f32},
    FusionPattern{.name = "group_norm_mul_add",
                  .conditions = "factors one for each channel",
                  .members = kGroupNorm,
                  .skips_views = true,
                  .objection = not_f32},
    FusionPattern{.name = "ssm_conv_bias_silu",
                  .peer = 14,
                  .conditions = "one bias a channel",
                  .members = kConvBiasSilu,
                  .objection = not_f32},
    FusionPattern{.name = "ssm_conv_silu", .peer = 15, .members = kConvSilu, .objection = not_f32},
    FusionPattern{.name = "unary_mul",
                  .peer = 16,
                  .conditions = "operands of equal shape",
                  .members = kGatedUnary,
                  .objection = not_one_float_type},
    FusionPattern{.name = "relu_sqr",
                  .peer = 17,
                  .conditions = "contiguous",
                  .members = kReluSqr,
                  .objection = not_one_float_type},
    FusionPattern{.name = "softcap", .peer = 18, .members = kSoftcap, .objection = bad_softcap},
};

static_assert(std::ranges::all_of(kPatterns, [](const FusionPattern& pattern) {
    return !pattern.members.empty() && pattern.members.size() <= kMostFused &&
           pattern.longest_run <= kMostFused && pattern.members[0].option == 0;
}));

}  // namespace

std::span<const FusionPattern> fusion_patterns() { return kPatterns; }

const FusionPattern* find_fusion_pattern(std::string_view name) {
    const auto found = std::ranges::find(kPatterns, name, &FusionPattern::name);
    return found == kPatterns.end() ? nullptr : &*found;
}

}  // namespace heddle
