// The objects among the arguments: one that is there, or one made for the occasion.
#include <array>

#include "ggml/ops_math.h"
#include "tests/campaign/doors/api_arguments.hpp"

namespace heddle::campaign {
namespace {

ggml_type some_type(Choices& choices) {
    return choices.pick({GGML_TYPE_F32, GGML_TYPE_F32, GGML_TYPE_F32, GGML_TYPE_F32, GGML_TYPE_I32,
                         GGML_TYPE_F16, GGML_TYPE_Q4_0, GGML_TYPE_Q8_0, GGML_TYPE_BF16,
                         GGML_TYPE_I64, GGML_TYPE_Q4_K, GGML_TYPE_I8, GGML_TYPE_F64,
                         GGML_TYPE_MXFP4, GGML_TYPE_IQ2_XXS});
}

}  // namespace

// ---- made for the occasion ---------------------------------------------------------------------

int ApiArguments::make_context() {
    const ggml_init_params params{std::size_t{1} << 17, nullptr, choices_.below(2) == 1};
    return world_.add(Kind::context, ggml_init(params), {});
}

int ApiArguments::make_stream() {
    const auto devices = world_.devices();
    const auto device = devices[choices_.below(static_cast<std::uint32_t>(devices.size()))];
    const ggml_backend_t stream = ggml_backend_dev_init(device, nullptr);
    if (stream != nullptr && ggml_backend_is_cpu(stream)) ggml_backend_cpu_set_n_threads(stream, 2);
    return world_.add(Kind::stream, stream, {});
}

int ApiArguments::make_scheduler() {
    std::array<ggml_backend_t, 2> streams{static_cast<ggml_backend_t>(object(Kind::stream)),
                                          ggml_backend_cpu_init()};
    ggml_backend_cpu_set_n_threads(streams[1], 1);
    const int processor = world_.add(Kind::stream, streams[1], {});
    together_.push_back(processor);
    const bool alone = streams[0] == nullptr || ggml_backend_is_cpu(streams[0]);
    const auto scheduler = ggml_backend_sched_new(streams.data() + (alone ? 1 : 0), nullptr,
                                                  alone ? 1 : 2, 64, choices_.one_in(4), true);
    return world_.add(Kind::scheduler, scheduler, together_);
}

ggml_tensor* ApiArguments::make_tensor() {
    auto* context = static_cast<ggml_context*>(object(Kind::context));
    const int owner = together_.back();
    const ggml_type type = some_type(choices_);
    const std::int64_t block = ggml_blck_size(type);
    std::array<std::int64_t, 4> extents{};
    for (auto& extent : extents) extent = choices_.pick<std::int64_t>({4, 4, 1, 2, 8});
    extents[0] = block > 1 ? block : choices_.pick<std::int64_t>({4, 32, 1, 8, 64});
    ggml_tensor* tensor =
        ggml_new_tensor(context, type, static_cast<int>(choices_.between(1, 4)), extents.data());
    if (tensor != nullptr) world_.add_tensor(tensor, std::array{owner});
    return tensor;
}

int ApiArguments::make_graph() {
    ggml_tensor* a = some_tensor();
    auto* context = static_cast<ggml_context*>(object(Kind::context));
    const int owner = together_.back();
    ggml_cgraph* graph = ggml_new_graph_custom(context, 64, choices_.one_in(4));
    if (graph == nullptr) return ApiWorld::kNone;
    if (ggml_tensor* y = ggml_add(context, a, a); y != nullptr) {
        world_.add_tensor(y, std::array{owner});
        ggml_build_forward_expand(graph, y);
    }
    world_.add_graph(graph, std::array{owner});
    return static_cast<int>(world_.graphs().size()) - 1;
}

int ApiArguments::make(Kind kind) {
    const auto devices = world_.devices();
    switch (kind) {
        case Kind::context:
            return make_context();
        case Kind::stream:
            return make_stream();
        case Kind::scheduler:
            return make_scheduler();
        case Kind::allocator: {
            return world_.add(kind, ggml_gallocr_new(some_buffer_type()), {});
        }
        case Kind::dataset: {
            return world_.add(kind, ggml_opt_dataset_init(GGML_TYPE_F32, GGML_TYPE_F32, 4, 2, 8, 2),
                              {});
        }
        case Kind::event: {
            const auto at = choices_.below(static_cast<std::uint32_t>(devices.size()) - 1) + 1;
            return world_.add(kind, ggml_backend_event_new(devices[at]), {});
        }
        case Kind::threadpool: {
            auto params = ggml_threadpool_params_default(static_cast<int>(choices_.between(1, 2)));
            return world_.add(kind, ggml_threadpool_new(&params), {});
        }
        case Kind::result:
            return world_.add(kind, ggml_opt_result_init(), {});
        case Kind::training: {
            const auto scheduler = static_cast<ggml_backend_sched_t>(object(Kind::scheduler));
            const auto loss = static_cast<ggml_opt_loss_type>(choices_.below(4));
            const auto params = ggml_opt_default_params(scheduler, loss);
            return world_.add(kind, ggml_opt_init(params), together_);
        }
        case Kind::file: {
            gguf_context* file = gguf_init_empty();
            gguf_set_val_str(file, "general.name", "campaign");
            return world_.add(kind, file, {});
        }
        default: {
            const auto size = choices_.pick<std::size_t>({1 << 16, 256, 0});
            return world_.add(kind, ggml_backend_buft_alloc_buffer(some_buffer_type(), size), {});
        }
    }
}

// ---- taken -------------------------------------------------------------------------------------

void* ApiArguments::object(Kind kind) {
    const std::vector<int> there = world_.usable(kind);
    const auto count = static_cast<std::uint32_t>(there.size());
    int number = ApiWorld::kNone;
    if (count > 0 && !choices_.one_in(8)) {
        number = there[count - 1 - choices_.below(count)];
    } else {
        number = make(kind);
    }
    if (number == ApiWorld::kNone) return nullptr;
    together_.push_back(number);
    return world_.objects()[static_cast<std::size_t>(number)].handle;
}

ggml_tensor* ApiArguments::some_tensor() {
    const std::vector<int> there = world_.usable_tensors();
    const auto count = static_cast<std::uint32_t>(there.size());
    if (count == 0 || choices_.one_in(8)) return make_tensor();
    const Part& part =
        world_.tensors()[static_cast<std::size_t>(there[count - 1 - choices_.below(count)])];
    together_.push_back(part.owner);
    return static_cast<ggml_tensor*>(part.handle);
}

ggml_backend_buffer_type_t ApiArguments::some_buffer_type() {
    const auto devices = world_.devices();
    const auto device = devices[choices_.below(static_cast<std::uint32_t>(devices.size()))];
    if (choices_.one_in(8)) {
        const auto pinned = ggml_backend_dev_host_buffer_type(device);
        if (pinned != nullptr) return pinned;
    }
    return ggml_backend_dev_buffer_type(device);
}

void ApiArguments::set(ggml_tensor*& value, std::string_view) {
    if (!is_wrong()) value = some_tensor();
}

void ApiArguments::set(ggml_cgraph*& value, std::string_view) {
    if (is_wrong()) return;
    const std::vector<int> there = world_.usable_graphs();
    const auto count = static_cast<std::uint32_t>(there.size());
    const int number =
        count == 0 || choices_.one_in(8) ? make_graph() : there[count - 1 - choices_.below(count)];
    if (number == ApiWorld::kNone) return;
    const Part& part = world_.graphs()[static_cast<std::size_t>(number)];
    together_.push_back(part.owner);
    value = static_cast<ggml_cgraph*>(part.handle);
}

void ApiArguments::set(ggml_backend_buffer_t& value, std::string_view) {
    if (!is_wrong()) value = static_cast<ggml_backend_buffer_t>(object(Kind::buffer));
    last_buffer_ = value;
}

void ApiArguments::set(ggml_backend_buffer_type_t& value, std::string_view) {
    if (!is_wrong()) value = some_buffer_type();
}

void ApiArguments::set(ggml_backend_dev_t& value, std::string_view) {
    const auto devices = world_.devices();
    if (!is_wrong()) value = devices[choices_.below(static_cast<std::uint32_t>(devices.size()))];
}

void ApiArguments::set(ggml_backend_reg_t& value, std::string_view name) {
    ggml_backend_dev_t device = nullptr;
    set(device, name);
    if (device != nullptr) value = ggml_backend_dev_backend_reg(device);
}

void ApiArguments::set(ggml_context*& value, std::string_view) {
    if (is_wrong()) return;
    value = static_cast<ggml_context*>(object(Kind::context));
    if (maker_ == ApiWorld::kNone && value != nullptr) maker_ = together_.back();
}
void ApiArguments::set(ggml_backend_t& value, std::string_view) {
    if (!is_wrong()) value = static_cast<ggml_backend_t>(object(Kind::stream));
}
void ApiArguments::set(ggml_backend_event_t& value, std::string_view) {
    if (!is_wrong()) value = static_cast<ggml_backend_event_t>(object(Kind::event));
}
void ApiArguments::set(ggml_backend_sched_t& value, std::string_view) {
    if (!is_wrong()) value = static_cast<ggml_backend_sched_t>(object(Kind::scheduler));
}
void ApiArguments::set(ggml_gallocr_t& value, std::string_view) {
    if (!is_wrong()) value = static_cast<ggml_gallocr_t>(object(Kind::allocator));
}
void ApiArguments::set(ggml_threadpool*& value, std::string_view) {
    if (!is_wrong()) value = static_cast<ggml_threadpool*>(object(Kind::threadpool));
}
void ApiArguments::set(ggml_opt_context_t& value, std::string_view) {
    if (!is_wrong()) value = static_cast<ggml_opt_context_t>(object(Kind::training));
}
void ApiArguments::set(ggml_opt_dataset_t& value, std::string_view) {
    if (!is_wrong()) value = static_cast<ggml_opt_dataset_t>(object(Kind::dataset));
}
void ApiArguments::set(ggml_opt_result_t& value, std::string_view) {
    if (!is_wrong()) value = static_cast<ggml_opt_result_t>(object(Kind::result));
}
void ApiArguments::set(gguf_context*& value, std::string_view) {
    if (!is_wrong()) value = static_cast<gguf_context*>(object(Kind::file));
}

}  // namespace heddle::campaign
