#include "model/generator.hpp"

#include <algorithm>
#include <cmath>

#include "ggml-backend-impl.h"
#include "heddle/cpu.h"
#include "work.hpp"

namespace heddle::tool {
namespace {

/// Rows that attention looks at come in steps, so that one graph serves many words.
constexpr std::int64_t kRowStep = 128;

std::int64_t rows_to_see(std::int64_t needed, std::int64_t all) {
    return std::min((needed + kRowStep - 1) / kRowStep * kRowStep, all);
}

/// The streams of devices that are joined, each by itself.
std::vector<ggml_backend_t> streams_behind(const Scheduler& scheduler) {
    std::vector<ggml_backend_t> streams;
    for (const auto& stream : scheduler.streams()) {
        if (!ggml_backend_is_meta(stream.c())) continue;
        for (std::size_t i = 0; i < ggml_backend_meta_n_backends(stream.c()); ++i) {
            streams.push_back(ggml_backend_meta_simple_backend(stream.c(), i));
        }
    }
    return streams;
}

void set_threads(const std::vector<ggml_backend_t>& streams, int threads) {
    for (ggml_backend_t stream : streams) {
        const auto set = Device(ggml_backend_get_device(stream))
                             .function<ggml_backend_set_n_threads_t>("ggml_backend_set_n_threads");
        if (set != nullptr) set(stream, threads);
    }
}

/// From now on the streams of `scheduler` compute each node by itself.
void stop_fusion(const Scheduler& scheduler) {
    std::vector<ggml_backend_t> streams = streams_behind(scheduler);
    for (const auto& stream : scheduler.streams()) streams.push_back(stream.c());
    for (ggml_backend_t stream : streams) {
        const auto set_fusion = Device(ggml_backend_get_device(stream))
                                    .function<heddle_cpu_set_fusion_t>("heddle_cpu_set_fusion");
        if (set_fusion != nullptr) set_fusion(stream, HEDDLE_CPU_FUSION_OFF);
    }
}

Generator::Work work_by_device(const Scheduler& scheduler, const Graph& graph) {
    Generator::Work work;
    for (int i = 0; i < graph.nodes(); ++i) {
        ggml_tensor* const node = ggml_graph_node(graph.c(), i);
        const double flops = work_of(*node).flops;
        if (flops <= 0) continue;
        ggml_backend_t stream = ggml_backend_sched_get_tensor_backend(scheduler.c(), node);
        if (stream != nullptr)
            work[ggml_backend_dev_name(ggml_backend_get_device(stream))] += flops;
    }
    return work;
}

void add(Generator::Work& work, const Generator::Work& more) {
    for (const auto& [device, flops] : more) work[device] += flops;
}

/// The device whose memory `tensor` lies in; none for memory of the host.
std::optional<Device> owner_of(const Tensor& tensor) {
    if (!tensor || tensor.c()->buffer == nullptr) return std::nullopt;
    const ggml_backend_dev_t owner =
        ggml_backend_buft_get_device(ggml_backend_buffer_get_type(tensor.c()->buffer));
    return owner != nullptr ? std::optional(Device(owner)) : std::nullopt;
}

}  // namespace

Result<SharedModelFile> open_model(const std::string& path) {
    HEDDLE_TRY_ASSIGN(ModelFile file, ModelFile::open(path));
    return std::make_shared<const ModelFile>(std::move(file));
}

Generator::Generator(SharedModelFile file, Options options)
    : file_(std::move(file)), wanted_(std::move(options)) {
    wanted_.batch = std::max<std::size_t>(wanted_.batch, 1);
}

/// A long text is read in parts that go from device to device: with one part for each device that
/// has layers and computes in the background, all of them have something to do. Logits of every
/// token are read after each part, so then there is one.
int Generator::parts_under_way(const Llama& model, const Options& options) {
    if (options.every_token) return 1;
    constexpr std::ptrdiff_t kMost = 8;  // each device has an attention mask for each part
    const std::vector<Room>& rooms = options.rooms;
    const auto takes_part = [&](const Need& need) {
        if (need.weights + need.cache == 0 || !need.device.properties().caps.async) return false;
        return std::ranges::find(rooms, need.device, &Room::device) != rooms.end();
    };
    const auto count = std::ranges::count_if(model.needs(), takes_part);
    return static_cast<int>(std::clamp<std::ptrdiff_t>(count, 1, kMost));
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
    HEDDLE_TRY_ASSIGN(Scheduler scheduler,
                      Scheduler::make(devices, {.threads = options.threads,
                                                .slots = parts_under_way(model, options),
                                                .policy = options.policy}));
    for (const auto& [device, bytes] : budgets) HEDDLE_TRY(scheduler.set_budget(device, bytes));
    if (options.threads > 0) set_threads(streams_behind(scheduler), options.threads);
    if (options.no_fusion) stop_fusion(scheduler);
    return scheduler;
}

Result<std::unique_ptr<Generator>> Generator::load(SharedModelFile file, const Options& given) {
    std::unique_ptr<Generator> made(new Generator(std::move(file), given));
    HEDDLE_TRY(made->place_model());
    HEDDLE_TRY_ASSIGN(made->tokenizer_, Tokenizer::of(made->file()));
    const std::size_t pieces = made->tokenizer_->vocabulary().size();
    const std::int64_t words = made->model_->shape().words;
    if (static_cast<std::int64_t>(pieces) > words) {
        return failure(Errc::corrupt, made->file().path(), ": ", pieces,
                       " pieces of text, but embeddings for ", words);
    }
    made->wanted_.on_tensor = {};  // nobody watches if weights are read again
    return made;
}

Result<> Generator::place_model() {
    prepared_.reset();
    scheduler_.reset();
    model_.reset();  // its memory is needed
    position_ = reserved_ = 0;
    HEDDLE_TRY_ASSIGN(fitted_, fit(*file_, wanted_));
    const Llama::Request request{.rooms = fitted_.rooms,
                                 .context = fitted_.context,
                                 .on_tensor = fitted_.on_tensor,
                                 .mapped = fitted_.mapped || !fitted_.helpers.empty()};
    HEDDLE_TRY_ASSIGN(auto model, Llama::load(*file_, request));
    HEDDLE_TRY_ASSIGN(Scheduler scheduler, make_scheduler(*model, fitted_));
    model_ = std::move(model);
    scheduler_.emplace(std::move(scheduler));
    scheduler_->set_tracing(tracing_);
    return ok();
}

void Generator::set_tracing(bool on) {
    tracing_ = on;
    scheduler_->set_tracing(on);
}

std::vector<Share> Generator::work() const {
    double all = 0;
    for (const auto& [device, flops] : work_) all += flops;
    std::vector<Share> shares;
    for (const auto& [device, flops] : work_) shares.push_back({device, flops / all});
    std::ranges::stable_sort(shares, std::greater(), &Share::part);
    return shares;
}

void Generator::forget(std::int64_t kept) {
    if (kept >= position_) return;
    position_ = kept;
    tokens_.resize(static_cast<std::size_t>(kept));
    while (!ends_.empty() && ends_.back() > kept) ends_.pop_back();
    // What is left of tokens that were read together.
    if (kept > 0 && (ends_.empty() || ends_.back() < kept)) ends_.push_back(kept);
}

Result<> Generator::check_room(std::size_t tokens) const {
    const std::int64_t room = model_->context() - position_;
    if (static_cast<std::int64_t>(tokens) <= room) return ok();
    return invalid(tokens, " tokens do not fit: there is room for ", room, " more of ",
                   model_->context(), "; --context makes more");
}

Result<std::span<const float>> Generator::read(std::span<const Token> tokens, const Stop& stop) {
    if (tokens.empty()) return invalid("no tokens to read");
    if (!model_) return failure(Errc::device, "the model could not be placed anew");
    HEDDLE_TRY(check_room(tokens.size()));
    const std::size_t before = tokens_.size(), parts = ends_.size();
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
    for (std::size_t end = before; end < tokens_.size();) {
        end = std::min(end + wanted_.batch, tokens_.size());
        ends_.push_back(static_cast<std::int64_t>(end));
    }
    Result<> done = read_rest(stop);
    while (!done) {
        if (!wanted_.on_loss) break;
        const std::vector<Fault> found = faults(done.error());
        if (found.empty()) break;
        done = go_on_without(found, done.error());
        if (!done) break;
        done = read_rest(stop);
    }
    if (!done) {
        tokens_.resize(before);
        ends_.resize(parts);
        position_ = std::min(position_, static_cast<std::int64_t>(before));
        return std::move(done).error();
    }
    if (position_ == ends_.back()) return std::span<const float>(logits_);
    tokens_.resize(static_cast<std::size_t>(position_));
    std::erase_if(ends_, [&](std::int64_t end) { return end > position_; });
    return std::span<const float>();
}

/// Parts follow each other without a pause: a device begins with the next one while those behind it
/// are still at the last.
Result<> Generator::read_rest(const Stop& stop) {
    const std::int64_t begin = position_;
    Work work;
    auto done = submit_rest(stop, work);
    if (done) done = scheduler_->wait();
    if (done) add(work_, work);
    if (done && position_ == ends_.back()) done = take_logits();
    if (!done) position_ = begin;
    return done;
}

Result<> Generator::submit_rest(const Stop& stop, Work& work) {
    // Tokens that are read again are read together as they were the first time: another number of
    // them would be rounded otherwise, and could be continued with other words.
    const auto first = std::ranges::upper_bound(ends_, position_);
    if (ends_.end() - first > 1) HEDDLE_TRY(reserve(ends_.back()));
    for (auto end = first; end != ends_.end(); ++end) {
        if (end != first && stop && stop()) break;
        const auto begin = static_cast<std::size_t>(position_);
        const auto count = static_cast<std::size_t>(*end - position_);
        HEDDLE_TRY(submit(std::span<const Token>(tokens_).subspan(begin, count)));
        add(work, prepared_->work);
        position_ = *end;
    }
    return ok();
}

Result<Generator::Prepared> Generator::describe(const Llama& model, std::int64_t tokens,
                                                std::int64_t seen, bool every_token) {
    const auto nodes = static_cast<std::size_t>(model.shape().layers) * 40 + 64;
    HEDDLE_TRY_ASSIGN(Context context, Context::make(nodes));
    const Llama::Batch batch = model.build(context, tokens, seen, every_token);
    HEDDLE_TRY_ASSIGN(Graph graph, Graph::of(context, batch.logits, nodes));
    return Prepared{tokens, seen, std::move(context), graph, batch};
}

Result<> Generator::pin_norms(Scheduler& scheduler, const Llama::Batch& batch) {
    if (scheduler.policy() == Scheduler::Policy::cost) return ok();
    for (const auto& [norm, weights] : batch.norms) {
        const auto owner = owner_of(weights);
        if (owner && !owner->is_cpu() && owner->supports(norm)) {
            HEDDLE_TRY(scheduler.pin(norm, *owner));
        }
    }
    return ok();
}

Result<> Generator::prepare(std::int64_t tokens, std::int64_t seen) {
    if (prepared_ && prepared_->tokens == tokens && prepared_->seen == seen) return ok();
    prepared_.reset();
    scheduler_->reset();
    HEDDLE_TRY_ASSIGN(Prepared prepared, describe(*model_, tokens, seen, wanted_.every_token));
    HEDDLE_TRY(pin_norms(*scheduler_, prepared.batch));
    HEDDLE_TRY(scheduler_->allocate(prepared.graph));
    // The scheduler can do without a device, but not without the weights and caches it had.
    if (!scheduler_->left_out().empty()) {
        return failure(Errc::device, scheduler_->left_out().front().name(), ": does not answer");
    }
    prepared.work = work_by_device(*scheduler_, prepared.graph);
    prepared_.emplace(std::move(prepared));
    return ok();
}

/// For all parts of a text up to a position: the plan of the largest is good for the others, too,
/// and a part that needed another one would have to wait for those that are under way.
Result<> Generator::reserve(std::int64_t end) {
    const std::int64_t seen = rows_to_see(end, model_->context());
    if (seen <= reserved_) return ok();
    prepared_.reset();
    const auto tokens = std::min(static_cast<std::int64_t>(wanted_.batch), end);
    HEDDLE_TRY_ASSIGN(const Prepared largest, describe(*model_, tokens, seen, wanted_.every_token));
    scheduler_->reset();
    HEDDLE_TRY(pin_norms(*scheduler_, largest.batch));
    HEDDLE_TRY(scheduler_->reserve(largest.graph));
    reserved_ = seen;
    return ok();
}

Result<> Generator::submit(std::span<const Token> tokens) {
    suspect_.reset();
    const auto count = static_cast<std::int64_t>(tokens.size());
    HEDDLE_TRY(prepare(count, rows_to_see(position_ + count, model_->context())));
    HEDDLE_TRY(write_inputs(tokens));
    HEDDLE_TRY(scheduler_->compute_async(prepared_->graph));
    return ok();
}

/// Of the part that was submitted last.
Result<> Generator::take_logits() {
    const Tensor& logits = prepared_->batch.logits;
    suspect_ = owner_of(logits);
    logits_.resize(static_cast<std::size_t>(model_->shape().words * logits.extent(1)));
    HEDDLE_TRY(heddle::read<float>(logits, std::span<float>(logits_)));
    suspect_.reset();
    return ok();
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
    const auto put = [&]<class T>(const Tensor& input, std::span<const T> values) {
        suspect_ = owner_of(input);
        return write<T>(input, values);
    };
    HEDDLE_TRY(put(batch.tokens, tokens));
    HEDDLE_TRY(put(batch.positions, std::span<const std::int32_t>(positions_)));
    HEDDLE_TRY(put(batch.rows, std::span<const std::int64_t>(rows_)));
    HEDDLE_TRY(put(batch.mask, std::span<const ggml_fp16_t>(mask_)));
    suspect_.reset();
    return ok();
}

}  // namespace heddle::tool
