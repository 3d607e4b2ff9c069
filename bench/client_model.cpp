#include "client_model.hpp"

#include <algorithm>
#include <cmath>

#include "heddle/heddle.h"

namespace heddle::bench {
namespace {

/// Rows of the cache that attention looks at come in steps, so that one graph serves many tokens.
constexpr std::int64_t kRowStep = 256;

std::int64_t round_up(std::int64_t n, std::int64_t step) { return (n + step - 1) / step * step; }

template <class Function>
Function find(ggml_backend_dev_t device, const char* name) {
    return reinterpret_cast<Function>(
        ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(device), name));
}

ggml_tensor* named(ggml_tensor* tensor, const char* name, std::int64_t layer) {
    return ggml_format_name(tensor, "%s-%d", name, static_cast<int>(layer));
}

std::string weight_of(std::int64_t layer, const char* name) {
    return "blk." + std::to_string(layer) + "." + name + ".weight";
}

}  // namespace

ClientModel::~ClientModel() {
    sched_.reset();
    if (threads_ == nullptr) return;
    const ggml_backend_dev_t device = ggml_backend_get_device(cpu_.get());
    cpu_.reset();
    find<decltype(&ggml_threadpool_free)>(device, "ggml_threadpool_free")(threads_);
}

Result<std::unique_ptr<ClientModel>> ClientModel::load(const std::string& path,
                                                       const Options& options) {
    std::unique_ptr<ClientModel> made(new ClientModel);
    const ggml_backend_dev_t device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    if (device == nullptr) return failure(Errc::not_found, "there is no CPU device");
    if (options.accelerator == device) {
        return invalid(ggml_backend_dev_name(device),
                       " is no accelerator: it has the other layers");
    }
    made->places_ = {device, options.accelerator, options.accelerated};
    HEDDLE_TRY_ASSIGN(made->weights_, ClientWeights::load(path, made->places_, options.extras));
    made->cpu_.reset(ggml_backend_dev_init(device, nullptr));
    if (made->cpu_ == nullptr) return failure(Errc::device, heddle_last_error());
    if (options.accelerator != nullptr) {
        made->accelerator_.reset(ggml_backend_dev_init(options.accelerator, nullptr));
        if (made->accelerator_ == nullptr) return failure(Errc::device, heddle_last_error());
    }
    HEDDLE_TRY(made->start(options));
    return made;
}

Result<> ClientModel::start(const Options& options) {
    options_ = options;
    options_.context = round_up(options.context, kRowStep);
    logits_.resize(static_cast<std::size_t>(weights_->shape().words));

    const ggml_backend_dev_t device = ggml_backend_get_device(cpu_.get());
    ggml_threadpool_params pool = ggml_threadpool_params_default(options.threads);
    threads_ = find<decltype(&ggml_threadpool_new)>(device, "ggml_threadpool_new")(&pool);
    if (threads_ == nullptr) return failure(Errc::out_of_memory, heddle_last_error());

    HEDDLE_TRY(make_caches());
    graph_nodes_ = std::max<std::size_t>(
        1024, 8 * (static_cast<std::size_t>(weights_->shape().layers) * 9 + 3));
    graph_memory_.resize(ggml_tensor_overhead() * graph_nodes_ +
                         ggml_graph_overhead_custom(graph_nodes_, false));
    HEDDLE_TRY(make_scheduler());
    return reserve();
}

/// The accelerator first. What the CPU computes lies in memory that the accelerator copies fast.
Result<> ClientModel::make_scheduler() {
    std::vector<ggml_backend_t> streams;
    std::vector<ggml_backend_buffer_type_t> types;
    ggml_backend_buffer_type_t host = ggml_backend_get_default_buffer_type(cpu_.get());
    if (accelerator_ != nullptr) {
        streams.push_back(accelerator_.get());
        types.push_back(ggml_backend_get_default_buffer_type(accelerator_.get()));
        const auto pinned = ggml_backend_dev_host_buffer_type(places_.accelerator);
        if (pinned != nullptr) host = pinned;
    }
    streams.push_back(cpu_.get());
    types.push_back(host);
    sched_.reset(ggml_backend_sched_new(
        streams.data(), types.data(), static_cast<int>(streams.size()), graph_nodes_, false, true));
    if (sched_ == nullptr) return failure(Errc::out_of_memory, heddle_last_error());
    return ok();
}

Result<> ClientModel::make_caches() {
    caches_.resize(static_cast<std::size_t>(weights_->shape().layers));
    HEDDLE_TRY(make_caches_of(places_.cpu));
    if (places_.accelerator != nullptr) HEDDLE_TRY(make_caches_of(places_.accelerator));
    return ok();
}

/// Keys and values of a layer lie where the layer is.
Result<> ClientModel::make_caches_of(ggml_backend_dev_t device) {
    const ClientShape& shape = weights_->shape();
    const std::size_t count = 2 * caches_.size();
    ggml_context_ptr context(ggml_init(
        {.mem_size = count * ggml_tensor_overhead(), .mem_buffer = nullptr, .no_alloc = true}));
    for (std::int64_t i = 0; i < shape.layers; ++i) {
        const bool is_accelerated = places_.is_accelerated(i, shape.layers);
        if (device != (is_accelerated ? places_.accelerator : places_.cpu)) continue;
        const auto cache = [&](const char* name) {
            return named(ggml_new_tensor_2d(context.get(), GGML_TYPE_F16, shape.kv_width(),
                                            options_.context),
                         name, i);
        };
        ggml_tensor* const keys = cache("cache_k");
        caches_[static_cast<std::size_t>(i)] = {keys, cache("cache_v")};
    }
    if (ggml_get_first_tensor(context.get()) == nullptr) return ok();
    ggml_backend_buffer_ptr memory(ggml_backend_alloc_ctx_tensors_from_buft(
        context.get(), ggml_backend_dev_buffer_type(device)));
    if (memory == nullptr) return failure(Errc::out_of_memory, heddle_last_error());
    ggml_backend_buffer_clear(memory.get(), 0);
    cache_contexts_.push_back(std::move(context));
    cache_memory_.push_back(std::move(memory));
    return ok();
}

/// Memory for the largest graph: that of a whole batch, that of a token, that of a batch again.
Result<> ClientModel::reserve() {
    for (const std::int64_t tokens : {options_.batch, std::int64_t{1}, options_.batch}) {
        ggml_backend_sched_reset(sched_.get());
        if (!ggml_backend_sched_reserve(sched_.get(), build(tokens, options_.context))) {
            return failure(Errc::out_of_memory, heddle_last_error());
        }
    }
    graph_ = nullptr;
    return ok();
}

std::int64_t ClientModel::rows_to_see(std::int64_t needed) const {
    return std::min(options_.context, round_up(needed, kRowStep));
}

// ---- the graph ---------------------------------------------------------------------------------

ggml_tensor* ClientModel::norm(ggml_tensor* x, const std::string& weight) {
    return ggml_mul(context_.get(), ggml_rms_norm(context_.get(), x, 1e-5f),
                    weights_->find(weight));
}

ggml_tensor* ClientModel::attention(ggml_cgraph* graph, std::int64_t layer, ggml_tensor* x,
                                    std::int64_t seen) {
    ggml_context* const c = context_.get();
    const ClientShape& shape = weights_->shape();
    const std::int64_t width = shape.head_width(), tokens = x->ne[1];
    const auto heads = [&](const char* name, const char* weight, std::int64_t count) {
        ggml_tensor* made = ggml_mul_mat(c, weights_->find(weight_of(layer, weight)), x);
        return ggml_reshape_3d(c, named(made, name, layer), width, count, tokens);
    };
    const auto turned = [&](ggml_tensor* made) {
        return ggml_rope_ext(c, made, inputs_.positions, nullptr, static_cast<int>(width), 0, 4096,
                             10000.0f, 1.0f, 0.0f, 1.0f, 32.0f, 1.0f);
    };
    ggml_tensor *q = heads("Qcur", "attn_q", shape.heads),
                *k = heads("Kcur", "attn_k", shape.kv_heads),
                *v = heads("Vcur", "attn_v", shape.kv_heads);
    q = turned(q);
    k = turned(k);
    for (ggml_tensor* made : {q, v, k}) ggml_build_forward_expand(graph, made);

    const auto& [keys, values] = caches_[static_cast<std::size_t>(layer)];
    for (const auto& [cache, made] : {std::pair{keys, k}, {values, v}}) {
        ggml_tensor* rows = ggml_reshape_2d(c, made, shape.kv_width(), tokens);
        ggml_build_forward_expand(graph, ggml_set_rows(c, cache, rows, inputs_.rows));
    }
    const auto cached = [&](ggml_tensor* cache) {
        const std::size_t row = ggml_row_size(cache->type, shape.kv_width());
        ggml_tensor* view = ggml_view_4d(c, cache, width, shape.kv_heads, seen, 1,
                                         ggml_row_size(cache->type, width), row,
                                         row * static_cast<std::size_t>(options_.context), 0);
        return ggml_permute(c, view, 0, 2, 1, 3);
    };
    const float scale = 1.0f / std::sqrt(static_cast<float>(width));
    ggml_tensor* attended = ggml_flash_attn_ext(c, ggml_permute(c, q, 0, 2, 1, 3), cached(keys),
                                                cached(values), inputs_.mask, scale, 0.0f, 0.0f);
    ggml_flash_attn_ext_set_prec(attended, GGML_PREC_F32);
    ggml_tensor* flat = ggml_reshape_2d(c, attended, shape.width, tokens);
    ggml_build_forward_expand(graph, flat);
    return named(ggml_mul_mat(c, weights_->find(weight_of(layer, "attn_output")), flat), "attn_out",
                 layer);
}

ggml_tensor* ClientModel::network(std::int64_t layer, ggml_tensor* x) {
    ggml_context* const c = context_.get();
    ggml_tensor* up = ggml_mul_mat(c, weights_->find(weight_of(layer, "ffn_up")), x);
    ggml_tensor* gate = ggml_mul_mat(c, weights_->find(weight_of(layer, "ffn_gate")), x);
    ggml_tensor* hidden =
        ggml_swiglu_split(c, named(gate, "ffn_gate", layer), named(up, "ffn_up", layer));
    return named(ggml_mul_mat(c, weights_->find(weight_of(layer, "ffn_down")), hidden), "ffn_out",
                 layer);
}

ggml_cgraph* ClientModel::build(std::int64_t tokens, std::int64_t seen) {
    context_.reset();  // the memory is used again
    context_.reset(ggml_init(
        {.mem_size = graph_memory_.size(), .mem_buffer = graph_memory_.data(), .no_alloc = true}));
    ggml_context* const c = context_.get();
    ggml_cgraph* const graph = ggml_new_graph_custom(c, graph_nodes_, false);
    const auto input = [&](ggml_type type, std::int64_t columns, std::int64_t rows) {
        ggml_tensor* made = ggml_new_tensor_2d(c, type, columns, rows);
        ggml_set_input(made);
        return made;
    };
    inputs_ = {.tokens = input(GGML_TYPE_I32, tokens, 1),
               .positions = input(GGML_TYPE_I32, tokens, 1),
               .rows = input(GGML_TYPE_I64, tokens, 1),
               .mask = input(GGML_TYPE_F32, seen, tokens),
               .outputs = input(GGML_TYPE_I32, 1, 1)};
    ggml_tensor* const mask = inputs_.mask;
    inputs_.mask = ggml_cast(c, mask, GGML_TYPE_F16);

    const std::int64_t layers = weights_->shape().layers;
    ggml_tensor* x = ggml_get_rows(c, weights_->find("token_embd.weight"), inputs_.tokens);
    for (std::int64_t i = 0; i < layers; ++i) {
        ggml_tensor* made =
            attention(graph, i, named(norm(x, weight_of(i, "attn_norm")), "attn_norm", i), seen);
        if (i == layers - 1) {  // only the last token is continued
            made = ggml_get_rows(c, made, inputs_.outputs);
            x = ggml_get_rows(c, x, inputs_.outputs);
        }
        x = named(ggml_add(c, made, x), "ffn_inp", i);
        ggml_tensor* inner = named(norm(x, weight_of(i, "ffn_norm")), "ffn_norm", i);
        x = named(ggml_add(c, network(i, inner), x), "l_out", i);
    }
    x = ggml_set_name(norm(x, "output_norm.weight"), "result_norm");
    logits_tensor_ = ggml_mul_mat(c, weights_->find("output.weight"), x);
    ggml_set_output(ggml_set_name(logits_tensor_, "result_output"));
    ggml_build_forward_expand(graph, logits_tensor_);
    inputs_.mask = mask;
    graph_tokens_ = tokens;
    graph_seen_ = seen;
    return graph;
}

// ---- running it --------------------------------------------------------------------------------

void ClientModel::write_inputs(std::span<const std::int32_t> tokens) {
    const auto count = static_cast<std::int64_t>(tokens.size());
    std::vector<std::int32_t> positions(tokens.size());
    auto* const rows = static_cast<std::int64_t*>(inputs_.rows->data);
    auto* mask = static_cast<float*>(inputs_.mask->data);
    std::fill_n(mask, count * graph_seen_, -INFINITY);
    for (std::int64_t i = 0; i < count; ++i, mask += graph_seen_) {
        positions[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(position_ + i);
        rows[i] = position_ + i;
        std::fill_n(mask, position_ + i + 1, 0.0f);
    }
    *static_cast<std::int32_t*>(inputs_.outputs->data) = static_cast<std::int32_t>(count - 1);
    ggml_backend_tensor_set(inputs_.tokens, tokens.data(), 0, tokens.size_bytes());
    ggml_backend_tensor_set(inputs_.positions, positions.data(), 0, tokens.size_bytes());
}

Result<std::span<const float>> ClientModel::read(std::span<const std::int32_t> tokens) {
    const auto count = static_cast<std::int64_t>(tokens.size());
    if (count > options_.batch || position_ + count > options_.context) {
        return invalid(count, " tokens after ", position_, ": there is room for ", options_.context,
                       ", ", options_.batch, " at a time");
    }
    const std::int64_t seen = rows_to_see(position_ + count);
    const bool fits = graph_ != nullptr && graph_tokens_ == count && graph_seen_ == seen;
    if (!fits || options_.rebuilds) {
        ggml_backend_sched_reset(sched_.get());
        graph_ = build(count, seen);
        if (!ggml_backend_sched_alloc_graph(sched_.get(), graph_)) {
            graph_ = nullptr;
            return failure(Errc::out_of_memory, heddle_last_error());
        }
    }
    write_inputs(tokens);
    const ggml_backend_dev_t device = ggml_backend_get_device(cpu_.get());
    find<decltype(&ggml_backend_cpu_set_threadpool)>(device, "ggml_backend_cpu_set_threadpool")(
        cpu_.get(), threads_);
    find<ggml_backend_set_n_threads_t>(device, "ggml_backend_set_n_threads")(cpu_.get(),
                                                                             options_.threads);
    if (ggml_backend_sched_graph_compute_async(sched_.get(), graph_) != GGML_STATUS_SUCCESS) {
        return failure(Errc::device, heddle_last_error());
    }
    ggml_backend_tensor_get_async(
        ggml_backend_sched_get_tensor_backend(sched_.get(), logits_tensor_), logits_tensor_,
        logits_.data(), 0, logits_.size() * sizeof(float));
    ggml_backend_sched_synchronize(sched_.get());
    position_ += count;
    return std::span<const float>(logits_);
}

}  // namespace heddle::bench
