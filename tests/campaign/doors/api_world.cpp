#include "tests/campaign/doors/api_world.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "heddle/sim.h"

namespace heddle::campaign {
namespace {

using Release = void (*)(void* handle);

constexpr std::array<Release, static_cast<std::size_t>(Kind::count)> kReleases{
    [](void* h) { ggml_opt_free(static_cast<ggml_opt_context_t>(h)); },
    [](void* h) { ggml_opt_result_free(static_cast<ggml_opt_result_t>(h)); },
    [](void* h) { ggml_backend_sched_free(static_cast<ggml_backend_sched_t>(h)); },
    [](void* h) { ggml_gallocr_free(static_cast<ggml_gallocr_t>(h)); },
    [](void* h) { ggml_opt_dataset_free(static_cast<ggml_opt_dataset_t>(h)); },
    [](void* h) { ggml_backend_event_free(static_cast<ggml_backend_event_t>(h)); },
    [](void* h) { ggml_backend_free(static_cast<ggml_backend_t>(h)); },
    [](void* h) { ggml_threadpool_free(static_cast<ggml_threadpool_t>(h)); },
    [](void* h) { gguf_free(static_cast<gguf_context*>(h)); },
    [](void* h) { ggml_backend_buffer_free(static_cast<ggml_backend_buffer_t>(h)); },
    [](void* h) { ggml_free(static_cast<ggml_context*>(h)); },
};

/// Tensors get memory from these: without them their data are gone.
bool gives_memory(Kind kind) {
    return kind == Kind::training || kind == Kind::scheduler || kind == Kind::allocator ||
           kind == Kind::dataset || kind == Kind::buffer;
}

/// Simulated devices as they are used here: small, and without a record that grows.
std::vector<ggml_backend_dev_t> make_devices() {
    std::vector<ggml_backend_dev_t> devices{ggml_backend_reg_dev_get(ggml_backend_cpu_reg(), 0)};
    const ggml_backend_reg_t sim = ggml_backend_sim_reg();
    const auto configure = reinterpret_cast<heddle_backend_configure_t>(
        ggml_backend_reg_get_proc_address(sim, "heddle_backend_configure"));
    for (const char* parameters : {"devices=2,mem=64M,trace=0,offload=1",
                                   "devices=1,mem=1M,trace=0,pinned=1,ops=MUL_MAT,ADD"}) {
        if (configure == nullptr || !configure(parameters)) continue;
        for (std::size_t i = 0; i < ggml_backend_reg_dev_count(sim); ++i) {
            devices.push_back(ggml_backend_reg_dev_get(sim, i));
        }
    }
    return devices;
}

}  // namespace

ApiWorld::ApiWorld() {
    devices();
    std::fill_n(scratch(), kScratchSize, std::byte{0});  // of the case before
}

std::span<const ggml_backend_dev_t> ApiWorld::devices() const {
    static const std::vector<ggml_backend_dev_t> all = make_devices();
    return all;
}

std::byte* ApiWorld::scratch() const {
    alignas(64) static std::byte memory[kScratchSize];
    return memory;
}

std::vector<int> ApiWorld::usable(Kind kind) const {
    std::vector<int> numbers;
    for (std::size_t i = 0; i < objects_.size(); ++i) {
        const Object& object = objects_[i];
        if (object.kind == kind && object.handle != nullptr && object.is_usable) {
            numbers.push_back(static_cast<int>(i));
        }
    }
    return numbers;
}

static std::vector<int> usable_parts(const std::vector<Part>& parts,
                                     const std::vector<Object>& objects) {
    std::vector<int> numbers;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        if (objects[static_cast<std::size_t>(parts[i].owner)].is_usable) {
            numbers.push_back(static_cast<int>(i));
        }
    }
    return numbers;
}

std::vector<int> ApiWorld::usable_tensors() const { return usable_parts(tensors_, objects_); }
std::vector<int> ApiWorld::usable_graphs() const { return usable_parts(graphs_, objects_); }

ggml_context* ApiWorld::context_of(int owner) const {
    const Object& object = objects_[static_cast<std::size_t>(owner)];
    return object.kind == Kind::context ? static_cast<ggml_context*>(object.handle) : nullptr;
}

bool ApiWorld::is_known(const void* handle) const {
    const auto is_it = [&](const auto& each) { return each.handle == handle; };
    return handle == nullptr || std::ranges::any_of(objects_, is_it) ||
           std::ranges::any_of(tensors_, is_it) || std::ranges::any_of(graphs_, is_it);
}

int ApiWorld::add(Kind kind, void* handle, std::span<const int> together) {
    if (is_known(handle)) return kNone;
    objects_.push_back({kind, handle});
    std::vector<int> all(together.begin(), together.end());
    all.push_back(static_cast<int>(objects_.size()) - 1);
    link(all);
    return all.back();
}

void ApiWorld::add_tensor(ggml_tensor* tensor, std::span<const int> together) {
    if (!is_known(tensor) && !together.empty()) tensors_.push_back({tensor, together.front()});
}

void ApiWorld::add_graph(ggml_cgraph* graph, std::span<const int> together) {
    if (!is_known(graph) && !together.empty()) graphs_.push_back({graph, together.front()});
}

void ApiWorld::link(std::span<const int> together) {
    for (const int a : together) {
        for (const int b : together) {
            auto& known = objects_[static_cast<std::size_t>(a)].known;
            if (a != b && std::ranges::find(known, b) == known.end()) known.push_back(b);
        }
    }
}

bool ApiWorld::may_free(int number) const {
    const Object& object = objects_[static_cast<std::size_t>(number)];
    if (object.handle == nullptr) return false;
    if (object.kind != Kind::context) return !is_known_earlier(object);
    // Tensors of one context may be operands in another: who knows that may reach this one too.
    std::vector<int> contexts{number};
    for (std::size_t i = 0; i < contexts.size(); ++i) {
        const Object& context = objects_[static_cast<std::size_t>(contexts[i])];
        if (is_known_earlier(context)) return false;
        for (const int other : context.known) {
            const Object& knows = objects_[static_cast<std::size_t>(other)];
            if (knows.kind != Kind::context || knows.handle == nullptr) continue;
            if (knows.is_usable && i == 0) return false;
            if (std::ranges::find(contexts, other) == contexts.end()) contexts.push_back(other);
        }
    }
    return true;
}

bool ApiWorld::is_known_earlier(const Object& object) const {
    return std::ranges::any_of(object.known, [&](int other) {
        const Object& knows = objects_[static_cast<std::size_t>(other)];
        return knows.handle != nullptr && knows.kind < object.kind;
    });
}

void ApiWorld::forget_parts_of(int owner) {
    const auto lies_there = [&](const Part& part) { return part.owner == owner; };
    std::erase_if(tensors_, lies_there);
    std::erase_if(graphs_, lies_there);
}

void ApiWorld::retire(int number) {
    for (const int other : objects_[static_cast<std::size_t>(number)].known) {
        Object& knows = objects_[static_cast<std::size_t>(other)];
        const bool holds_tensors =
            knows.kind == Kind::context || knows.kind == Kind::file || gives_memory(knows.kind);
        if (!holds_tensors || !knows.is_usable) continue;
        knows.is_usable = false;
        retire(other);
    }
}

void ApiWorld::free(int number) {
    synchronize();
    Object& object = objects_[static_cast<std::size_t>(number)];
    forget_parts_of(number);
    if (gives_memory(object.kind)) retire(number);
    kReleases[static_cast<std::size_t>(object.kind)](object.handle);
    object.handle = nullptr;
    object.is_usable = false;
}

void ApiWorld::free_all(Choices* choices) {
    synchronize();
    for (Object& object : objects_) object.is_usable = false;
    std::vector<int> left(objects_.size());
    std::iota(left.begin(), left.end(), 0);
    std::ranges::stable_sort(left, {}, [&](int i) { return objects_[std::size_t(i)].kind; });
    std::erase_if(left, [&](int i) { return objects_[std::size_t(i)].handle == nullptr; });
    while (!left.empty()) {
        std::size_t at =
            choices == nullptr ? 0 : choices->below(static_cast<std::uint32_t>(left.size()));
        // The first in the order of kinds is always free to go.
        if (!may_free(left[at])) at = 0;
        free(left[at]);
        left.erase(left.begin() + static_cast<std::ptrdiff_t>(at));
    }
    tensors_.clear();
    graphs_.clear();
    objects_.clear();
}

void ApiWorld::synchronize() {
    for (const Object& object : objects_) {
        if (object.handle == nullptr) continue;
        if (object.kind == Kind::scheduler) {
            ggml_backend_sched_synchronize(static_cast<ggml_backend_sched_t>(object.handle));
        } else if (object.kind == Kind::stream) {
            ggml_backend_synchronize(static_cast<ggml_backend_t>(object.handle));
        }
    }
}

}  // namespace heddle::campaign
