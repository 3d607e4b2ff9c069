/// What a program that uses the C API holds at a time, and what it may still do with it.
///
/// The model knows three things: which object a tensor or a graph lies in, which objects were used
/// together, and the order in which objects that were used together are given back. Nothing is used
/// after it was freed; everything else a caller may do wrong, callers of this do wrong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml-opt.h"
#include "gguf.h"
#include "tests/campaign/choices.hpp"

namespace heddle::campaign {

/// What has to be freed, in the order in which objects that know each other are freed.
enum class Kind : int {
    training,    ///< ggml_opt_context_t
    result,      ///< ggml_opt_result_t
    scheduler,   ///< ggml_backend_sched_t
    allocator,   ///< ggml_gallocr_t
    dataset,     ///< ggml_opt_dataset_t
    event,       ///< ggml_backend_event_t
    stream,      ///< ggml_backend_t
    threadpool,  ///< ggml_threadpool_t
    file,        ///< gguf_context*
    buffer,      ///< ggml_backend_buffer_t
    context,     ///< ggml_context*
    count,
};

struct Object {
    Kind kind;
    void* handle;
    bool is_usable = true;     ///< false: memory that it points to is gone; it waits to be freed
    std::vector<int> known{};  ///< objects that were used together with it
};

/// A tensor or a graph, which lies in an object.
struct Part {
    void* handle;
    int owner;
};

class ApiWorld {
public:
    static constexpr int kNone = -1;

    ApiWorld();
    ~ApiWorld() { free_all(nullptr); }
    ApiWorld(const ApiWorld&) = delete;
    ApiWorld& operator=(const ApiWorld&) = delete;

    const std::vector<Object>& objects() const { return objects_; }
    std::vector<int> usable(Kind kind) const;  ///< numbers of objects
    std::vector<int> usable_tensors() const;   ///< numbers in tensors()
    std::vector<int> usable_graphs() const;    ///< numbers in graphs()
    const std::vector<Part>& tensors() const { return tensors_; }
    const std::vector<Part>& graphs() const { return graphs_; }

    /// What a call returned; kept if it is new. `together` are the objects that took part.
    int add(Kind kind, void* handle, std::span<const int> together);
    void add_tensor(ggml_tensor* tensor, std::span<const int> together);
    void add_graph(ggml_cgraph* graph, std::span<const int> together);

    /// These objects may keep pointers to each other from now on.
    void link(std::span<const int> together);

    /// Whether the object can be freed now: nothing that is freed before it knows it.
    bool may_free(int number) const;
    /// Frees it. Tensors whose memory goes with it are not used any more.
    void free(int number);
    /// Frees everything in a random order that is allowed; the simplest is by kind.
    void free_all(Choices* choices);
    /// Waits for all that was given to streams and schedulers.
    void synchronize();

    /// Host memory that calls may read and write: large enough for every length that is drawn.
    static constexpr std::size_t kScratchSize = std::size_t{1} << 20;
    std::byte* scratch() const;

    /// Devices of the process: the processor, and simulated ones.
    std::span<const ggml_backend_dev_t> devices() const;
    ggml_context* context_of(int owner) const;

private:
    bool is_known(const void* handle) const;
    /// Whether an object that is there, and is freed before this one, knows it.
    bool is_known_earlier(const Object& object) const;
    void forget_parts_of(int owner);
    void retire(int number);

    std::vector<Object> objects_;  // freed ones stay, without a handle
    std::vector<Part> tensors_, graphs_;
};

}  // namespace heddle::campaign
