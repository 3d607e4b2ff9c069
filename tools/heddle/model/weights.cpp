#include "model/placement.hpp"
#include "model/weight_memory.hpp"

/// Weights of a file in memory of devices: mapped where the host computes, copied elsewhere.
namespace heddle::tool {
std::size_t Llama::cache_bytes() const {
    return static_cast<std::size_t>(shape_.layers) * shape_.cache_bytes(context_);
}

Result<std::unique_ptr<Llama>> Llama::load(const ModelFile& file, const Request& request) {
    HEDDLE_TRY_ASSIGN(const Shape shape, Shape::read(file));
    auto model = std::unique_ptr<Llama>(new Llama(shape));
    model->context_ = request.context > 0 ? request.context : shape.context;
    HEDDLE_TRY(model->place(file, request));
    HEDDLE_TRY(model->bind(file));
    return model;
}

Result<> Llama::place(const ModelFile& file, const Request& request) {
    HEDDLE_TRY_ASSIGN(const Device cpu, Device::cpu());
    HEDDLE_TRY_ASSIGN(place_of_layer_, share_layers(file, shape_, request.rooms, context_));
    needs_.push_back({cpu});
    for (const Room& room : request.rooms) needs_.push_back({room.device});
    for (const std::size_t place : place_of_layer_) {
        const auto layer = static_cast<std::int64_t>(place_of_cache_.size());
        const bool on_host =
            place == 0 || keeps_cache_away(request.rooms[place - 1].refused, layer);
        place_of_cache_.push_back(on_host ? 0 : place);
        places_.push_back(needs_[place].device.name());
    }
    place_of_output_ = place_of("output.weight", request.rooms);
    places_.push_back(needs_[place_of_output_].device.name());

    HEDDLE_TRY(describe_weights(file, request));
    HEDDLE_TRY(request.only_describe ? pretend_weights() : store_weights(file, request));
    return store_caches(request.only_describe);
}

std::size_t Llama::place_of(const std::string& name, const std::vector<Room>& rooms) const {
    std::size_t place = 0;
    if (name.starts_with("blk.")) {
        const std::size_t layer = std::strtoull(name.c_str() + 4, nullptr, 10);
        if (layer < place_of_layer_.size()) place = place_of_layer_[layer];
    } else if (name == "output.weight") {
        place = place_of_layer_.back();
    } else if (name.starts_with("output")) {
        place = place_of_output_;
    }
    return place == 0 || rooms[place - 1].refused.contains(name) ? 0 : place;
}

Result<> Llama::describe_weights(const ModelFile& file, const Request& request) {
    // Who else takes part may want weights of the processor's, and could not read them.
    const bool mapped = request.mapped || !request.rooms.empty() || request.only_describe;
    const auto count = static_cast<std::size_t>(file.tensor_count()) + 1;
    for (std::size_t i = 0; i < needs_.size(); ++i) {
        HEDDLE_TRY_ASSIGN(Context context, Context::make_store(count));
        contexts_.push_back(std::move(context));
    }
    const Device& cpu = needs_[0].device;
    const bool is_tied = file.find("output.weight") == nullptr;
    for (ggml_tensor* t = ggml_get_first_tensor(file.tensors()); t != nullptr;
         t = ggml_get_next_tensor(file.tensors(), t)) {
        const std::string name = ggml_get_name(t);
        Context* context = &contexts_[place_of(name, request.rooms)];
        if (const auto type = mapped ? nullptr : memory_for(*t, cpu, is_tied)) {
            auto known = copies_.find(type);
            if (known == copies_.end()) {
                HEDDLE_TRY_ASSIGN(Context store, Context::make_store(count));
                known = copies_.emplace(type, std::move(store)).first;
            }
            context = &known->second;
        }
        weights_[name] = context->tensor(t->type, std::span(t->ne, 4), name);
        HEDDLE_TRY(context->check());
        // An output that is tied to the embedding is wanted where the last layer is.
        if (name != "token_embd.weight" || place_of_output_ == 0 || !is_tied) continue;
        weights_["output.weight"] =
            contexts_[place_of_output_].tensor(t->type, std::span(t->ne, 4), "output.weight");
    }
    for (std::size_t i = 0; i < needs_.size(); ++i) {
        HEDDLE_TRY(contexts_[i].check());
        needs_[i].weights = ggml_backend_alloc_ctx_tensors_from_buft_size(
            contexts_[i].c(), needs_[i].device.buffer_type());
    }
    for (const auto& [type, context] : copies_) {
        needs_[0].weights += ggml_backend_alloc_ctx_tensors_from_buft_size(context.c(), type);
    }
    return ok();
}

Result<> Llama::pretend(const Context& context, const Device& device, bool weights) {
    Buffer nothing(ggml_backend_buft_alloc_buffer(device.buffer_type(), 0));
    if (nothing.c() == nullptr) return failure(Errc::out_of_memory, "no memory for a buffer");
    if (weights) nothing.set_weights();
    for (ggml_tensor* t = ggml_get_first_tensor(context.c()); t != nullptr;
         t = ggml_get_next_tensor(context.c(), t)) {
        t->buffer = nothing.c();
    }
    buffers_.push_back(std::move(nothing));
    return ok();
}

Result<> Llama::pretend_weights() {
    for (std::size_t i = 0; i < needs_.size(); ++i) {
        HEDDLE_TRY(pretend(contexts_[i], needs_[i].device, true));
    }
    return ok();
}

Result<> Llama::store_weights(const ModelFile& file, const Request& request) {
    // On the host weights stay where the file is mapped.
    const FileBytes& bytes = file.bytes();
    HEDDLE_TRY_ASSIGN(Buffer mapped,
                      Buffer::around(needs_[0].device, bytes.data(), bytes.size(), bytes.size()));
    mapped.set_weights();
    buffers_.push_back(std::move(mapped));
    for (std::size_t place = 0; place < needs_.size(); ++place) {
        ggml_tensor* const first = ggml_get_first_tensor(contexts_[place].c());
        if (first == nullptr) continue;
        const Device& device = needs_[place].device;
        if (place > 0) {
            auto buffer = Buffer::for_all(contexts_[place], device);
            if (!buffer) return std::move(buffer).error().within(device.name());
            buffer->set_weights();
            buffers_.push_back(*std::move(buffer));
        }
        for (ggml_tensor* t = first; t != nullptr;
             t = ggml_get_next_tensor(contexts_[place].c(), t)) {
            const Tensor tensor = contexts_[place].wrap(t);
            const ggml_tensor* origin = file.find(t->name);  // none of a tied output
            std::byte* data = file.data_of(origin ? *origin : *file.find("token_embd.weight"));
            HEDDLE_TRY(place == 0 ? buffers_[0].place(tensor, data)
                                  : write<std::byte>(tensor, std::span(data, tensor.bytes())));
            if (request.on_tensor) request.on_tensor(t->name);
        }
    }
    return store_copies(file, request);
}

Result<> Llama::store_copies(const ModelFile& file, const Request& request) {
    for (auto& [type, context] : copies_) {
        Buffer buffer(ggml_backend_alloc_ctx_tensors_from_buft(context.c(), type));
        if (buffer.c() == nullptr) {
            return failure(Errc::out_of_memory, "no memory for weights in ",
                           ggml_backend_buft_name(type), ": ", heddle_last_error());
        }
        buffer.set_weights();
        buffers_.push_back(std::move(buffer));
        for (ggml_tensor* t = ggml_get_first_tensor(context.c()); t != nullptr;
             t = ggml_get_next_tensor(context.c(), t)) {
            const Tensor tensor = context.wrap(t);
            std::byte* data = file.data_of(*file.find(t->name));
            HEDDLE_TRY(write<std::byte>(tensor, std::span(data, tensor.bytes())));
            release_mapped(data, tensor.bytes());
            if (request.on_tensor) request.on_tensor(t->name);
        }
    }
    // Reading a weight may have brought back its neighbours.
    if (!copies_.empty()) release_mapped(file.bytes().data(), file.bytes().size());
    return ok();
}

Result<> Llama::store_caches(bool only_describe) {
    layers_.resize(place_of_layer_.size());
    // Caches live beside the weights of their layer, if attention is computed there.
    for (std::size_t place = 0; place < needs_.size(); ++place) {
        HEDDLE_TRY_ASSIGN(Context context, Context::make_store(2 * layers_.size()));
        bool any = false;
        for (std::size_t i = 0; i < layers_.size(); ++i) {
            if (place_of_cache_[i] != place) continue;
            const auto cache = [&](const char* what) {
                return context.tensor(GGML_TYPE_F16, {shape_.kv_width(), context_},
                                      what + std::to_string(i));
            };
            layers_[i].keys = cache("keys_");
            layers_[i].values = cache("values_");
            any = true;
        }
        HEDDLE_TRY(context.check());
        const Device& device = needs_[place].device;
        needs_[place].cache =
            ggml_backend_alloc_ctx_tensors_from_buft_size(context.c(), device.buffer_type());
        if (any && only_describe) {
            HEDDLE_TRY(pretend(context, device, false));
        } else if (any) {
            auto buffer = Buffer::for_all(context, device);
            if (!buffer) return std::move(buffer).error().within(device.name());
            buffer->clear();
            buffers_.push_back(*std::move(buffer));
        }
        contexts_.push_back(std::move(context));
    }
    return ok();
}

Result<Tensor> Llama::weight(const ModelFile& file, const std::string& name,
                             std::initializer_list<std::int64_t> extents, bool optional) {
    const auto found = weights_.find(name);
    if (found == weights_.end()) {
        if (optional) return Tensor();
        return failure(Errc::corrupt, file.path(), ": has no tensor '", name, "'");
    }
    for (int dimension = 0; dimension < GGML_MAX_DIMS; ++dimension) {
        const auto place = static_cast<std::size_t>(dimension);
        const std::int64_t extent = place < extents.size() ? extents.begin()[place] : 1;
        if (found->second.extent(dimension) != extent) {
            return failure(Errc::corrupt, file.path(), ": '", name, "' has ",
                           found->second.extent(dimension), " elements in dimension ", dimension,
                           ", the model needs ", extent);
        }
    }
    return found->second;
}

Result<> Llama::bind(const ModelFile& file) {
    const Shape& s = shape_;
    const std::int64_t q_width = s.heads * s.head_width;
    HEDDLE_TRY_ASSIGN(embedding_, weight(file, "token_embd.weight", {s.width, s.words}));
    HEDDLE_TRY_ASSIGN(output_norm_, weight(file, "output_norm.weight", {s.width}));
    HEDDLE_TRY_ASSIGN(output_, weight(file, "output.weight", {s.width, s.words}, true));
    if (!output_) output_ = embedding_;  // tied
    HEDDLE_TRY_ASSIGN(rope_factors_,
                      weight(file, "rope_freqs.weight", {s.rope.dimensions / 2}, true));
    if (rope_factors_ && rope_factors_.c()->type != GGML_TYPE_F32) {
        return failure(Errc::corrupt, file.path(), ": 'rope_freqs.weight' is of type ",
                       ggml_type_name(rope_factors_.c()->type), ", not f32");
    }
    for (std::size_t i = 0; i < layers_.size(); ++i) {
        const std::string p = layer_prefix(static_cast<std::int64_t>(i));
        Layer& layer = layers_[i];
        HEDDLE_TRY_ASSIGN(layer.attention_norm, weight(file, p + "attn_norm.weight", {s.width}));
        HEDDLE_TRY_ASSIGN(layer.q, weight(file, p + "attn_q.weight", {s.width, q_width}));
        HEDDLE_TRY_ASSIGN(layer.k, weight(file, p + "attn_k.weight", {s.width, s.kv_width()}));
        HEDDLE_TRY_ASSIGN(layer.v, weight(file, p + "attn_v.weight", {s.width, s.kv_width()}));
        HEDDLE_TRY_ASSIGN(layer.q_bias, weight(file, p + "attn_q.bias", {q_width}, true));
        HEDDLE_TRY_ASSIGN(layer.k_bias, weight(file, p + "attn_k.bias", {s.kv_width()}, true));
        HEDDLE_TRY_ASSIGN(layer.v_bias, weight(file, p + "attn_v.bias", {s.kv_width()}, true));
        HEDDLE_TRY_ASSIGN(layer.output, weight(file, p + "attn_output.weight", {q_width, s.width}));
        HEDDLE_TRY_ASSIGN(layer.ffn_norm, weight(file, p + "ffn_norm.weight", {s.width}));
        HEDDLE_TRY_ASSIGN(layer.gate, weight(file, p + "ffn_gate.weight", {s.width, s.hidden}));
        HEDDLE_TRY_ASSIGN(layer.up, weight(file, p + "ffn_up.weight", {s.width, s.hidden}));
        HEDDLE_TRY_ASSIGN(layer.down, weight(file, p + "ffn_down.weight", {s.hidden, s.width}));
    }
    return ok();
}

}  // namespace heddle::tool
