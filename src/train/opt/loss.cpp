#include "train/opt/loss.hpp"

#include "ops/binary.hpp"
#include "ops/build.hpp"
#include "ops/loss.hpp"
#include "ops/math.hpp"
#include "ops/reduce.hpp"
#include "ops/scale.hpp"

namespace heddle {
namespace {

/// Makes nodes with names, one after the other.
class LossBuilder {
public:
    LossBuilder(LossContexts contexts, Tensor& outputs, std::int32_t period)
        : contexts_(contexts), outputs_(outputs), period_(period) {}

    Result<> mean_of_outputs() {
        HEDDLE_TRY_ASSIGN(Tensor * sum, inner<ops::Sum>({}, {&outputs_}, "loss_sum"));
        return finish(kept<ops::Scale>({.scale = 1 / share()}, {sum}, "loss_mean"));
    }

    Result<> sum_of_outputs() { return finish(kept<ops::Sum>({}, {&outputs_}, "loss_sum")); }

    Result<> cross_entropy() {
        HEDDLE_TRY(make_labels());
        HEDDLE_TRY(period_ > 1 ? scaled_cross_entropy()
                               : finish(kept<ops::CrossEntropyLoss>({}, {&outputs_, made_.labels},
                                                                    "loss_cross_entropy")));
        HEDDLE_TRY_ASSIGN(made_.predictions, kept<ops::Argmax>({}, {&outputs_}, "pred"));
        HEDDLE_TRY_ASSIGN(Tensor * right, inner<ops::Argmax>({}, {made_.labels}, "labels_argmax"));
        HEDDLE_TRY_ASSIGN(made_.correct,
                          kept<ops::CountEqual>({}, {made_.predictions, right}, "ncorrect"));
        made_.predictions->flags |= GGML_TENSOR_FLAG_OUTPUT;
        made_.correct->flags |= GGML_TENSOR_FLAG_OUTPUT;
        return ok();
    }

    Result<> mean_squared_error() {
        HEDDLE_TRY(make_labels());
        HEDDLE_TRY_ASSIGN(Tensor * error,
                          inner<ops::Sub>({}, {&outputs_, made_.labels}, "loss_error"));
        HEDDLE_TRY_ASSIGN(Tensor * squared, inner<ops::Sqr>({}, {error}, "loss_squared_error"));
        HEDDLE_TRY_ASSIGN(Tensor * sum, inner<ops::Sum>({}, {squared}, "loss_sum_squared_error"));
        return finish(kept<ops::Scale>({.scale = 1 / share()}, {sum}, "loss_mean_squared_error"));
    }

    const LossNodes& made() const { return made_; }

private:
    template <Descriptor D>
    Result<Tensor*> named(Context& context, const Args<D>& args, std::initializer_list<Tensor*> src,
                          std::string_view name) {
        auto node = build<D>(context, args, src);
        if (!node) return std::move(node).error().within(name);
        set_name(**node, name);
        return node;
    }
    template <Descriptor D>
    Result<Tensor*> inner(const Args<D>& args, std::initializer_list<Tensor*> src,
                          std::string_view name) {
        return named<D>(contexts_.inner, args, src, name);
    }
    template <Descriptor D>
    Result<Tensor*> kept(const Args<D>& args, std::initializer_list<Tensor*> src,
                         std::string_view name) {
        return named<D>(contexts_.kept, args, src, name);
    }

    /// What one output contributes to is divided by this.
    float share() const { return static_cast<float>(period_ * element_count(outputs_)); }

    Result<> make_labels() {
        HEDDLE_TRY_ASSIGN(made_.labels, new_tensor(contexts_.kept, TensorSpec::like(outputs_)));
        set_name(*made_.labels, "labels");
        made_.labels->flags |= GGML_TENSOR_FLAG_INPUT;
        return ok();
    }

    Result<> scaled_cross_entropy() {
        HEDDLE_TRY_ASSIGN(Tensor * whole, inner<ops::CrossEntropyLoss>(
                                              {}, {&outputs_, made_.labels}, "loss_cross_entropy"));
        return finish(kept<ops::Scale>({.scale = 1 / static_cast<float>(period_)}, {whole},
                                       "loss_cross_entropy_scaled"));
    }

    Result<> finish(Result<Tensor*> loss) {
        if (!loss) return std::move(loss).error();
        if (!is_scalar(**loss) || (*loss)->type != GGML_TYPE_F32) {
            return invalid("training: the loss ", describe(**loss), " of the outputs ",
                           describe(outputs_), " is not a single f32");
        }
        made_.loss = *loss;
        made_.loss->flags |= GGML_TENSOR_FLAG_OUTPUT | GGML_TENSOR_FLAG_LOSS;
        return ok();
    }

    LossContexts contexts_;
    Tensor& outputs_;
    std::int32_t period_;
    LossNodes made_;
};

Result<> build_kind(LossBuilder& builder, LossKind kind) {
    switch (kind) {
        case GGML_OPT_LOSS_TYPE_MEAN:
            return builder.mean_of_outputs();
        case GGML_OPT_LOSS_TYPE_SUM:
            return builder.sum_of_outputs();
        case GGML_OPT_LOSS_TYPE_CROSS_ENTROPY:
            return builder.cross_entropy();
        case GGML_OPT_LOSS_TYPE_MEAN_SQUARED_ERROR:
            return builder.mean_squared_error();
    }
    return check_loss(kind);
}

}  // namespace

Result<> check_loss(LossKind kind) {
    if (GGML_OPT_LOSS_TYPE_MEAN <= kind && kind <= GGML_OPT_LOSS_TYPE_MEAN_SQUARED_ERROR) {
        return ok();
    }
    return invalid("training: there is no loss number ", static_cast<int>(kind));
}

bool is_per_point(LossKind kind) { return kind != GGML_OPT_LOSS_TYPE_SUM; }

Result<LossNodes> build_loss(LossContexts contexts, LossKind kind, Tensor& outputs,
                             std::int32_t period) {
    if (is_empty(outputs)) {
        return invalid("training: the outputs ", describe(outputs), " are empty");
    }
    LossBuilder builder(contexts, outputs, period);
    HEDDLE_TRY(build_kind(builder, kind));
    return builder.made();
}

Result<> expand_loss(Graph& graph, const LossNodes& nodes) {
    HEDDLE_TRY(expand(graph, *nodes.loss, true));
    if (nodes.predictions == nullptr) return ok();
    HEDDLE_TRY(expand(graph, *nodes.predictions, true));
    return expand(graph, *nodes.correct, true);
}

}  // namespace heddle
