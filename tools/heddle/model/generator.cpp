#include "model/generator.hpp"

#include <algorithm>
#include <cmath>

namespace heddle::tool {
namespace {

/// Rows that attention looks at come in steps, so that one graph serves many words.
constexpr std::int64_t kRowStep = 128;

std::int64_t rows_to_see(std::int64_t needed, std::int64_t all) {
    return std::min((needed + kRowStep - 1) / kRowStep * kRowStep, all);
}

}  // namespace

Generator::Generator(ModelFile file, std::unique_ptr<Tokenizer> tokenizer,
                     std::unique_ptr<Llama> model, Scheduler scheduler, std::size_t batch)
    : file_(std::move(file)),
      tokenizer_(std::move(tokenizer)),
      model_(std::move(model)),
      scheduler_(std::move(scheduler)),
      batch_(batch) {
    logits_.resize(static_cast<std::size_t>(model_->shape().words));
}

Result<Scheduler> Generator::make_scheduler(const Llama& model, const Options& options) {
    std::vector<Device> devices;
    std::vector<std::pair<Device, std::size_t>> budgets;
    for (const Room& room : options.rooms) {
        const auto need = std::ranges::find(model.needs(), room.device, &Need::device);
        const std::size_t taken = need->weights + need->cache;
        const std::size_t free = room.device.properties().memory_free;
        // Who has no layers may still help the processor with theirs, if the results fit.
        if (taken == 0 && room.results > free) continue;
        devices.push_back(room.device);
        if (room.budget == 0) continue;
        budgets.emplace_back(room.device, room.budget - std::min(room.budget, taken));
    }
    devices.insert(devices.end(), options.helpers.begin(), options.helpers.end());
    HEDDLE_TRY_ASSIGN(const Device cpu, Device::cpu());
    devices.push_back(cpu);  // alone if there is nothing else
    HEDDLE_TRY_ASSIGN(Scheduler scheduler, Scheduler::make(devices, {.threads = options.threads,
                                                                     .policy = options.policy}));
    for (const auto& [device, bytes] : budgets) HEDDLE_TRY(scheduler.set_budget(device, bytes));
    return scheduler;
}

Result<std::unique_ptr<Generator>> Generator::load(const std::string& path, const Options& given) {
    HEDDLE_TRY_ASSIGN(ModelFile file, ModelFile::open(path));
    HEDDLE_TRY_ASSIGN(const Options options, fit(file, given));
    const Llama::Request request{.rooms = options.rooms,
                                 .context = options.context,
                                 .on_tensor = options.on_tensor,
                                 .mapped = options.mapped || !options.helpers.empty()};
    HEDDLE_TRY_ASSIGN(auto model, Llama::load(file, request));
    HEDDLE_TRY_ASSIGN(auto tokenizer, Tokenizer::of(file));
    if (static_cast<std::int64_t>(tokenizer->vocabulary().size()) > model->shape().words) {
        return failure(Errc::corrupt, path, ": ", tokenizer->vocabulary().size(),
                       " pieces of text, but embeddings for ", model->shape().words);
    }
    HEDDLE_TRY_ASSIGN(Scheduler scheduler, make_scheduler(*model, options));
    return std::unique_ptr<Generator>(new Generator(std::move(file), std::move(tokenizer),
                                                    std::move(model), std::move(scheduler),
                                                    std::max<std::size_t>(options.batch, 1)));
}

Result<> Generator::check_room(std::size_t tokens) const {
    const std::int64_t room = model_->context() - position_;
    if (static_cast<std::int64_t>(tokens) <= room) return ok();
    return invalid(tokens, " tokens do not fit: there is room for ", room, " more of ",
                   model_->context(), "; --context makes more");
}

Result<std::span<const float>> Generator::read(std::span<const Token> tokens) {
    if (tokens.empty()) return invalid("no tokens to read");
    HEDDLE_TRY(check_room(tokens.size()));
    const std::int64_t before = position_;
    while (!tokens.empty()) {
        const auto part = tokens.first(std::min(batch_, tokens.size()));
        if (auto done = read_batch(part); !done) {
            position_ = before;
            return std::move(done).error();
        }
        position_ += static_cast<std::int64_t>(part.size());
        tokens = tokens.subspan(part.size());
    }
    return std::span<const float>(logits_);
}

Result<Generator::Prepared> Generator::describe(const Llama& model, std::int64_t tokens,
                                                std::int64_t seen) {
    const auto nodes = static_cast<std::size_t>(model.shape().layers) * 40 + 64;
    HEDDLE_TRY_ASSIGN(Context context, Context::make(nodes));
    const Llama::Batch batch = model.build(context, tokens, seen);
    HEDDLE_TRY_ASSIGN(Graph graph, Graph::of(context, batch.logits, nodes));
    return Prepared{tokens, seen, std::move(context), graph, batch};
}

Result<> Generator::prepare(std::int64_t tokens, std::int64_t seen) {
    if (prepared_ && prepared_->tokens == tokens && prepared_->seen == seen) return ok();
    prepared_.reset();
    scheduler_.reset();
    HEDDLE_TRY_ASSIGN(Prepared prepared, describe(*model_, tokens, seen));
    HEDDLE_TRY(scheduler_.allocate(prepared.graph));
    prepared_.emplace(std::move(prepared));
    return ok();
}

Result<> Generator::read_batch(std::span<const Token> tokens) {
    const auto count = static_cast<std::int64_t>(tokens.size());
    HEDDLE_TRY(prepare(count, rows_to_see(position_ + count, model_->context())));
    HEDDLE_TRY(write_inputs(tokens));
    HEDDLE_TRY(scheduler_.compute(prepared_->graph));
    return heddle::read<float>(prepared_->batch.logits, std::span<float>(logits_));
}

Result<> Generator::write_inputs(std::span<const Token> tokens) {
    const auto count = static_cast<std::int64_t>(tokens.size());
    const Llama::Batch& batch = prepared_->batch;
    positions_.clear();
    rows_.clear();
    for (std::int64_t i = 0; i < count; ++i) {
        positions_.push_back(static_cast<std::int32_t>(position_ + i));
        rows_.push_back(position_ + i);
    }
    // Every token sees itself and what came before.
    const ggml_fp16_t seen = ggml_fp32_to_fp16(0.0f), hidden = ggml_fp32_to_fp16(-INFINITY);
    mask_.assign(static_cast<std::size_t>(count * prepared_->seen), hidden);
    for (std::int64_t i = 0; i < count; ++i) {
        const auto row = mask_.begin() + i * prepared_->seen;
        std::fill(row, row + position_ + i + 1, seen);
    }
    HEDDLE_TRY(write<Token>(batch.tokens, tokens));
    HEDDLE_TRY(write(batch.positions, positions_));
    HEDDLE_TRY(write(batch.rows, rows_));
    return write(batch.mask, mask_);
}

}  // namespace heddle::tool
