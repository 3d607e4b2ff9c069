#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "heddle/heddle.hpp"

/// Models of the llama family: what a file says about one, its weights on devices, and the graph
/// that computes it.
namespace heddle::tool {

/// Numbers of a model.
struct Shape {
    std::int64_t layers = 0, width = 0, hidden = 0;
    std::int64_t heads = 0, kv_heads = 0, head_width = 0;
    std::int64_t context = 0;  ///< tokens the model was made for
    std::int64_t words = 0;    ///< size of the vocabulary
    float epsilon = 1e-5f;
    Rope rope;

    static Result<Shape> read(const ModelFile& file);

    std::int64_t kv_width() const { return kv_heads * head_width; }
    /// Bytes of keys and values of one layer for so many tokens.
    std::size_t cache_bytes(std::int64_t tokens) const {
        return 2 * static_cast<std::size_t>(kv_width() * tokens) * sizeof(ggml_fp16_t);
    }
};

/// Weights of one layer; biases may be empty.
struct Layer {
    Tensor attention_norm, q, k, v, output, ffn_norm, gate, up, down;
    Tensor q_bias, k_bias, v_bias;
    Tensor keys, values;  ///< of all tokens so far
};

/// Weights and caches that a device cannot use, by name, each with what it lacks: "MUL_MAT of
/// q8_0".
using Refusals = std::map<std::string, std::string>;

struct Cut;

/// A device with room for weights: 0 is as much as there is.
struct Room {
    Device device;
    std::size_t budget = 0;
    std::size_t results = 0;  ///< of that, what results of graphs need; 0: not known
    Refusals refused = {};    ///< what stays on the host even if its layer is here
    /// Of a device that is several joined ones; it answers for the device, so it lives as long.
    std::shared_ptr<const Cut> cut = {};
};

/// What a model takes of a device's memory, besides what its graphs need.
struct Need {
    Device device;
    std::size_t weights = 0, cache = 0;
};

/// Weights and caches in memory of devices.
class Llama {
public:
    struct Request {
        std::vector<Room>
            rooms;  ///< devices for layers, most preferred first; the rest stays on the host
        std::int64_t context = 0;  ///< tokens to make room for; 0: what the model was made for
        std::function<void(const std::string&)> on_tensor;  ///< called for each weight placed
        bool only_describe = false;  ///< nothing is read or allocated; graphs cannot be computed
        bool mapped = true;          ///< the processor reads all weights where the file is mapped
    };
    static Result<std::unique_ptr<Llama>> load(const ModelFile& file, const Request& request);

    const Shape& shape() const { return shape_; }
    std::int64_t context() const { return context_; }  ///< tokens there is room for
    const std::vector<std::string>& places() const { return places_; }  ///< of layers, then output
    const std::vector<Need>& needs() const { return needs_; }  ///< the processor is the first
    std::size_t cache_bytes() const;

    /// What a run is given and gives.
    struct Batch {
        Tensor tokens, positions, rows, mask;  ///< inputs
        Tensor logits;                         ///< of the last token, or of all
        /// The norms of all layers, each with the weights that it is multiplied by.
        std::vector<std::pair<Tensor, Tensor>> norms = {};
    };

    /// The graph for `tokens` tokens that see `seen` rows of the cache, in `context`. It has the
    /// logits of the last one, or of `every_token`.
    Batch build(Context& context, std::int64_t tokens, std::int64_t seen, bool every_token) const;

private:
    explicit Llama(const Shape& shape) : shape_(shape) {}

    Result<> place(const ModelFile& file, const Request& request);
    /// Where a weight goes: to the place of its layer, unless the device there refuses it.
    std::size_t place_of(const std::string& name, const std::vector<Room>& rooms) const;
    Result<> describe_weights(const ModelFile& file, const Request& request);
    Result<> pretend_weights();
    Result<> store_weights(const ModelFile& file, const Request& request);
    /// Copies the weights that are not left in the file, and gives up their originals.
    Result<> store_copies(const ModelFile& file, const Request& request);
    Result<> store_caches(bool only_describe);
    /// Tensors of `context` take a place on the device, but no memory.
    Result<> pretend(const Context& context, const Device& device, bool weights);
    Result<> bind(const ModelFile& file);
    Result<Tensor> weight(const ModelFile& file, const std::string& name,
                          std::initializer_list<std::int64_t> extents, bool optional = false);
    Tensor attention(Context& context, std::size_t number, const Tensor& x, const Batch& batch,
                     std::int64_t seen) const;

    Shape shape_;
    std::int64_t context_ = 0;
    std::vector<Need> needs_;                  ///< one for each place
    std::vector<std::size_t> place_of_layer_;  ///< places in `needs_`
    std::vector<std::size_t> place_of_cache_;  ///< those of the layers, or the host
    std::size_t place_of_output_ = 0;
    std::vector<Context> contexts_;  ///< of weights at each place, then of caches
    std::map<ggml_backend_buffer_type_t, Context> copies_;  ///< of weights not left in the file
    std::vector<Buffer> buffers_;
    std::map<std::string, Tensor> weights_;
    std::vector<Layer> layers_;
    std::vector<std::string> places_;
    Tensor embedding_, output_norm_, output_, rope_factors_;
};

}  // namespace heddle::tool
