#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/llama.hpp"
#include "model/vocabulary.hpp"

namespace heddle::tool {

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
        bool mapped = false;  ///< see Llama::Request; always where others help the processor
    };
    /// The scheduler for `model`, whose needs are those of the rooms of `options`. What weights and
    /// caches leave of a budget is for results.
    static Result<Scheduler> make_scheduler(const Llama& model, const Options& options);

    /// A graph for so many tokens seeing so many rows of the cache.
    struct Prepared {
        std::int64_t tokens = 0, seen = 0;
        Context context;
        Graph graph;
        Llama::Batch batch;
    };
    /// Only writes the graph down.
    static Result<Prepared> describe(const Llama& model, std::int64_t tokens, std::int64_t seen);

    /// That which needs most memory: so many tokens at the end of a full context.
    static Result<Prepared> describe_largest(const Llama& model, std::size_t batch);

    /// Bytes that results of `graph` need, by the name of the device whose memory they lie in.
    static Result<std::map<std::string, std::size_t>> result_bytes(const Scheduler& scheduler,
                                                                   const Graph& graph);

    /// `options` with rooms that know what results will need.
    static Result<Options> fit(const ModelFile& file, const Options& options);

    /// Fits the options first.
    static Result<std::unique_ptr<Generator>> load(const std::string& path, const Options& options);

    /// Reads tokens after those it has read; gives the logits for what comes next. Fails if there
    /// is no more room: then nothing was read.
    Result<std::span<const float>> read(std::span<const Token> tokens);

    /// Fails if so many tokens more do not fit.
    Result<> check_room(std::size_t tokens) const;

    void forget() { position_ = 0; }
    std::int64_t position() const { return position_; }
    const Tokenizer& tokenizer() const { return *tokenizer_; }
    const Llama& model() const { return *model_; }
    const ModelFile& file() const { return file_; }
    Scheduler& scheduler() { return scheduler_; }

private:
    Generator(ModelFile file, std::unique_ptr<Tokenizer> tokenizer, std::unique_ptr<Llama> model,
              Scheduler scheduler, std::size_t batch);
    Result<> prepare(std::int64_t tokens, std::int64_t seen);
    Result<> read_batch(std::span<const Token> tokens);
    Result<> write_inputs(std::span<const Token> tokens);

    ModelFile file_;
    std::unique_ptr<Tokenizer> tokenizer_;
    std::unique_ptr<Llama> model_;
    Scheduler scheduler_;
    std::size_t batch_;
    std::optional<Prepared> prepared_;  ///< has memory
    std::int64_t position_ = 0;
    std::vector<float> logits_;
    std::vector<std::int32_t> positions_;
    std::vector<std::int64_t> rows_;
    std::vector<ggml_fp16_t> mask_;
};

}  // namespace heddle::tool
