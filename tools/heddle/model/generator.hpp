#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/cut.hpp"
#include "model/placement.hpp"
#include "model/vocabulary.hpp"

namespace heddle::tool {

/// A model's file: opened, mapped and parsed once, for all that read it.
using SharedModelFile = std::shared_ptr<const ModelFile>;
Result<SharedModelFile> open_model(const std::string& path);

/// A model that is ready to continue text: file, weights, scheduler, and what it has read so far.
class Generator {
public:
    struct Options {
        std::vector<Room> rooms;      ///< devices for layers, the processor not among them
        std::vector<Device> helpers;  ///< devices without memory of their own, such as BLAS
        int threads = 0;
        std::int64_t context = 0;
        std::size_t batch = 512;  ///< tokens of a prompt that are read at a time
        Scheduler::Policy policy = Scheduler::Policy::rules;
        std::function<void(const std::string&)> on_tensor;
        bool mapped = false;     ///< see Llama::Request; always where others help the processor
        bool no_fusion = false;  ///< each node is computed by itself
        bool join = false;       ///< rooms are one joined device; those that are left, after a loss
        std::vector<LeftOut> left_out = {};  ///< of the rooms asked for, those of no use
        /// Called for a device that failed, before the text goes on without it. If there is no such
        /// function, `read` fails.
        std::function<void(const LeftOut&)> on_loss = {};
        /// Logits come for all tokens that are read together, one row each, not for the last only.
        bool every_token = false;
    };
    /// The scheduler for `model`, whose needs are those of the rooms of `options`. What weights and
    /// caches leave of a budget is for results.
    static Result<Scheduler> make_scheduler(const Llama& model, const Options& options);

    /// Floating-point operations by device.
    using Work = std::map<std::string, double>;

    /// A graph for so many tokens seeing so many rows of the cache.
    struct Prepared {
        std::int64_t tokens = 0, seen = 0;
        Context context;
        Graph graph;
        Llama::Batch batch;
        Work work = {};  ///< once it has memory
    };
    /// Only writes the graph down.
    static Result<Prepared> describe(const Llama& model, std::int64_t tokens, std::int64_t seen,
                                     bool every_token = false);

    /// That which needs most memory: so many tokens at the end of a full context.
    static Result<Prepared> describe_largest(const Llama& model, std::size_t batch,
                                             bool every_token = false);

    /// Has norms computed where their weights are. By the rules of the scheduler they would stay
    /// with the layer before, and two tensors instead of one would go to the device of the next.
    /// Costs see that themselves.
    static Result<> pin_norms(Scheduler& scheduler, const Llama::Batch& batch);

    /// Bytes that results need, by the name of the device whose memory they lie in.
    static Result<std::map<std::string, std::size_t>> result_bytes(Scheduler& scheduler,
                                                                   const Prepared& prepared);

    /// `options` with rooms that know what they cannot read and what results will need, less those
    /// that cannot multiply the weights of any layer.
    static Result<Options> fit(const ModelFile& file, const Options& options);

    /// Fits the options first. Generators may share a file.
    static Result<std::unique_ptr<Generator>> load(SharedModelFile file, const Options& options);

    /// Asked between the parts of a long text whether the rest is not wanted any more.
    using Stop = std::function<bool()>;

    /// Reads tokens after those it has read; gives the logits for what comes next, or none if it
    /// was stopped before. Fails if there is no more room: then nothing was read. If a device
    /// fails, the model is placed without it and all tokens so far are read again.
    Result<std::span<const float>> read(std::span<const Token> tokens, const Stop& stop = {});

    /// Fails if so many tokens more do not fit.
    Result<> check_room(std::size_t tokens) const;

    /// All but the first so many tokens, or all.
    void forget(std::int64_t kept = 0);
    std::int64_t position() const { return position_; }
    const Tokenizer& tokenizer() const { return *tokenizer_; }
    const Llama& model() const { return *model_; }
    const ModelFile& file() const { return *file_; }
    Scheduler& scheduler() { return *scheduler_; }
    void set_tracing(bool on);

    /// Who computed, by floating-point operations, most of it first.
    std::vector<Share> work() const;
    /// Devices that have no layer because they cannot multiply.
    const std::vector<LeftOut>& left_out() const { return fitted_.left_out; }
    /// Those that compute as one.
    std::vector<std::string> joined() const {
        return joined_names(fitted_.rooms, model_->places());
    }
    /// Devices that failed.
    const std::vector<LeftOut>& losses() const { return losses_; }

private:
    Generator(SharedModelFile file, Options options);
    /// Gives the model and the scheduler up, and makes new ones.
    Result<> place_model();
    Result<> prepare(std::int64_t tokens, std::int64_t seen);
    static int parts_under_way(const Llama& model, const Options& options);
    Result<> read_rest(const Stop& stop);  ///< of `tokens_`
    /// Adds to `work` what is submitted.
    Result<> submit_rest(const Stop& stop, Work& work);
    Result<> reserve(std::int64_t end);
    Result<> submit(std::span<const Token> tokens);
    Result<> take_logits();
    Result<> write_inputs(std::span<const Token> tokens);
    /// Who is to blame for a failure; empty if nobody could be left out for it.
    std::vector<Fault> faults(const Error& reason) const;
    /// Does without a device from now on; false if it took no part.
    bool lose(const Device& device, const std::string& message);
    /// Places the model without those that failed. Fails if that is not possible.
    Result<> go_on_without(const std::vector<Fault>& faults, const Error& reason);

    SharedModelFile file_;
    Options wanted_, fitted_;  ///< `wanted_` has no device that was lost
    std::unique_ptr<Tokenizer> tokenizer_;
    std::unique_ptr<Llama> model_;
    std::optional<Scheduler> scheduler_;
    std::optional<Prepared> prepared_;  ///< has memory
    std::optional<Device> suspect_;     ///< has the input or output that could not be moved
    std::vector<LeftOut> losses_;
    Work work_;  ///< of what was read, also if it was read again
    bool tracing_ = false;
    std::vector<Token> tokens_;       ///< to be read, and read up to `position_`
    std::vector<std::int64_t> ends_;  ///< of those that are read together, in `tokens_`
    std::int64_t position_ = 0;
    std::int64_t reserved_ = 0;  ///< rows to be seen that there is memory for
    std::vector<float> logits_;
    std::vector<std::int32_t> positions_;
    std::vector<std::int64_t> rows_;
    std::vector<ggml_fp16_t> mask_;
};

}  // namespace heddle::tool
