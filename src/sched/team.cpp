#include "sched/team.hpp"

#include <limits>

#include "runtime/buffer_type.hpp"
#include "runtime/device.hpp"
#include "runtime/stream.hpp"

namespace heddle::sched {
namespace {

Result<Runner> make_runner(Stream* stream, BufferType* type, std::size_t number) {
    if (stream == nullptr) return invalid("stream ", number, " of the scheduler is NULL");
    Runner runner;
    runner.stream = stream;
    runner.name = name_of(*stream);
    HEDDLE_TRY_ASSIGN(runner.device, device_of(*stream));
    if (type == nullptr) {
        HEDDLE_TRY_ASSIGN(type, default_buffer_type(*stream));
    }
    if (!supports_buffer_type(*runner.device, *type)) {
        return invalid("stream ", number, " of the scheduler, '", runner.name,
                       "': its device does not support buffer type '", name_of(*type), "'");
    }
    runner.type = type;
    runner.on_host = is_host(*type);
    HEDDLE_TRY_ASSIGN(const DeviceProperties properties, properties_of(*runner.device));
    runner.is_async = properties.caps.async;
    runner.has_events = properties.caps.events && runner.device->iface.event_new != nullptr;
    runner.has_reserve = has_reserve(*stream);
    return runner;
}

}  // namespace

Result<Team> Team::make(std::span<Stream* const> streams, std::span<BufferType* const> types,
                        bool offload) {
    if (streams.empty()) return invalid("a scheduler needs at least one stream");
    if (streams.size() > static_cast<std::size_t>(std::numeric_limits<RunnerId>::max())) {
        return invalid("a scheduler of ", streams.size(), " streams; ",
                       std::numeric_limits<RunnerId>::max(), " can be numbered");
    }
    if (!types.empty() && types.size() != streams.size()) {
        return invalid("a scheduler of ", streams.size(), " streams was given ", types.size(),
                       " buffer types");
    }
    Team team;
    team.offload_ = offload;
    for (std::size_t i = 0; i < streams.size(); ++i) {
        BufferType* const type = types.empty() ? nullptr : types[i];
        if (!types.empty() && type == nullptr) {
            return invalid("buffer type ", i, " of the scheduler is NULL");
        }
        HEDDLE_TRY_ASSIGN(Runner runner, make_runner(streams[i], type, i));
        team.runners_.push_back(std::move(runner));
    }
    HEDDLE_TRY_ASSIGN(const DeviceType last, type_of(*team.runners_.back().device));
    if (last != GGML_BACKEND_DEVICE_TYPE_CPU) {
        return invalid("the last stream of a scheduler must be of a CPU device, and '",
                       team.runners_.back().name, "' is not: it runs what no other can");
    }
    return team;
}

RunnerId Team::find(const Stream* stream) const {
    for (std::size_t i = 0; i < runners_.size(); ++i) {
        if (runners_[i].stream == stream) return static_cast<RunnerId>(i);
    }
    return kNoRunner;
}

bool Team::can_use(RunnerId id, BufferType& type) {
    const auto runner = static_cast<std::size_t>(id);
    for (const Answers& known : answers_) {
        if (known.type == &type) return known.of_runner[runner];
    }
    Answers fresh{&type, {}};  // kept when it is complete: memory may run out before
    for (const Runner& each : runners_) {
        fresh.of_runner.push_back(supports_buffer_type(*each.device, type));
    }
    return answers_.emplace_back(std::move(fresh)).of_runner[runner];
}

}  // namespace heddle::sched
