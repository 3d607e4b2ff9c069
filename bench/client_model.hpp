#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpp.h"
#include "ggml-cpu.h"
#include "gguf.h"
#include "heddle/result.hpp"

/// A language model program as those are that were written for ggml: it uses the C API alone, and
/// knows nothing of the library behind it. The order of its calls is that of llama.cpp.
namespace heddle::bench {

/// A file, mapped whole; parts of it can be let go.
class MappedFile {
public:
    static Result<MappedFile> open(const std::string& path);
    MappedFile(MappedFile&& other) noexcept;
    MappedFile& operator=(MappedFile&&) = delete;
    ~MappedFile();

    std::byte* data() const { return data_; }
    std::size_t size() const { return size_; }

    /// Unmaps what lies outside of these bytes, in whole pages.
    void keep_only(std::size_t begin, std::size_t end);

private:
    MappedFile(std::byte* data, std::size_t size) : data_(data), size_(size), end_(size) {}

    std::byte* data_;
    std::size_t size_;
    std::size_t begin_ = 0, end_;  ///< what is mapped
};

/// Numbers of a model of the llama family.
struct ClientShape {
    std::int64_t layers, width, heads, kv_heads, words;

    std::int64_t head_width() const { return width / heads; }
    std::int64_t kv_width() const { return head_width() * kv_heads; }
};

/// Which device has which layers. The output counts as the layer behind all others, what comes
/// before the first one as layer -1.
struct ClientPlaces {
    ggml_backend_dev_t cpu = nullptr;
    ggml_backend_dev_t accelerator = nullptr;  ///< none: the CPU has all
    std::int64_t accelerated = 0;  ///< so many layers, the last ones, are the accelerator's

    bool is_accelerated(std::int64_t layer, std::int64_t layers) const {
        return accelerator != nullptr && layer >= 0 && layer >= layers - accelerated;
    }
};

/// Weights in the memory that their device likes best for them, or where the file is mapped.
class ClientWeights {
public:
    /// Without `extras`, and beside an accelerator, all weights of the CPU stay in the mapped file:
    /// there llama.cpp prefers the accelerator's memory of the host to what the CPU offers, and the
    /// mapped file to that.
    static Result<std::unique_ptr<ClientWeights>> load(const std::string& path,
                                                       const ClientPlaces& places, bool extras);

    ggml_tensor* find(const std::string& name) const;
    const ClientShape& shape() const { return shape_; }
    std::size_t mapped_bytes() const { return used_end_ - used_begin_; }  ///< of the file, kept
    /// Bytes that were allocated, by the names of buffer types.
    std::map<std::string, std::size_t> allocated_bytes() const;

private:
    ClientWeights(MappedFile file, gguf_context_ptr description, ggml_context_ptr tensors);
    Result<> read_shape();
    void choose_memory(const ClientPlaces& places, bool extras);
    void add(const ggml_tensor& described, const std::string& name, const ClientPlaces& places,
             bool extras);
    Result<> allocate(ggml_backend_dev_t cpu);
    Result<> fill();
    std::size_t offset_of(const ggml_tensor& weight) const;

    MappedFile file_;
    gguf_context_ptr description_;
    ggml_context_ptr tensors_;
    ClientShape shape_ = {};
    std::map<ggml_backend_buffer_type_t, ggml_context_ptr> contexts_;
    std::vector<ggml_backend_buffer_ptr> buffers_;
    ggml_backend_buffer_t mapped_ = nullptr;  ///< one of them
    std::map<std::string, ggml_tensor*> weights_;
    std::size_t used_begin_ = 0, used_end_ = 0;
};

/// Weights, caches, a scheduler, and the graph of the last run, which serves again if it fits.
class ClientModel {
public:
    struct Options {
        int threads = 1;
        std::int64_t context = 0;
        std::int64_t batch = 512;
        bool extras = true;                        ///< see ClientWeights
        ggml_backend_dev_t accelerator = nullptr;  ///< has the output; see ClientPlaces
        std::int64_t accelerated = 0;
        bool rebuilds = false;  ///< the graph is built and allocated for every run
    };
    static Result<std::unique_ptr<ClientModel>> load(const std::string& path,
                                                     const Options& options);
    ~ClientModel();
    ClientModel(const ClientModel&) = delete;
    ClientModel& operator=(const ClientModel&) = delete;

    /// Reads tokens after those it has read, at most `batch`; gives the logits of the last one.
    Result<std::span<const float>> read(std::span<const std::int32_t> tokens);
    void forget() { position_ = 0; }
    const ClientWeights& weights() const { return *weights_; }

private:
    ClientModel() = default;
    struct Inputs {
        ggml_tensor *tokens, *positions, *rows, *mask, *outputs;
    };

    Result<> start(const Options& options);
    Result<> make_scheduler();
    Result<> make_caches();
    Result<> make_caches_of(ggml_backend_dev_t device);
    Result<> reserve();
    std::int64_t rows_to_see(std::int64_t needed) const;
    /// The graph for so many tokens, in the memory that all graphs share.
    ggml_cgraph* build(std::int64_t tokens, std::int64_t seen);
    ggml_tensor* attention(ggml_cgraph* graph, std::int64_t layer, ggml_tensor* x,
                           std::int64_t seen);
    ggml_tensor* network(std::int64_t layer, ggml_tensor* x);
    ggml_tensor* norm(ggml_tensor* x, const std::string& weight);
    void write_inputs(std::span<const std::int32_t> tokens);

    std::unique_ptr<ClientWeights> weights_;
    Options options_;
    ClientPlaces places_;
    ggml_backend_ptr accelerator_, cpu_;
    ggml_threadpool* threads_ = nullptr;
    ggml_backend_sched_ptr sched_;
    std::vector<ggml_context_ptr> cache_contexts_;  ///< one for each device
    std::vector<ggml_backend_buffer_ptr> cache_memory_;
    std::vector<std::array<ggml_tensor*, 2>> caches_;  ///< keys and values of each layer

    std::vector<std::byte> graph_memory_;
    std::size_t graph_nodes_ = 0;
    ggml_context_ptr context_;  ///< of the graph
    ggml_cgraph* graph_ = nullptr;
    std::int64_t graph_tokens_ = 0, graph_seen_ = 0;
    Inputs inputs_ = {};
    ggml_tensor* logits_tensor_ = nullptr;
    std::int64_t position_ = 0;
    std::vector<float> logits_;
};

}  // namespace heddle::bench
