#include <algorithm>

#include "ggml-backend-impl.h"
#include "model/cut.hpp"
#include "model/generator.hpp"

/// What devices cannot read, and how much of their memory results of graphs need, so that weights
/// leave it free.
namespace heddle::tool {
namespace {

/// Tells rooms what they refuse, and leaves those out that cannot multiply.
Result<> leave_out_useless(const ModelFile& file, Generator::Options& options) {
    // As the processor alone would compute it: who reads what is the same everywhere.
    HEDDLE_TRY_ASSIGN(const auto model, Llama::load(file, {.rooms = {},
                                                           .context = options.context,
                                                           .on_tensor = {},
                                                           .only_describe = true}));
    HEDDLE_TRY_ASSIGN(const auto word, Generator::describe(*model, 1, model->context()));
    HEDDLE_TRY_ASSIGN(const auto prompt,
                      Generator::describe_largest(*model, options.batch, options.every_token));
    std::erase_if(options.rooms, [&](Room& room) {
        room.refused = refusals_of(word.graph, room.device);
        room.refused.merge(refusals_of(prompt.graph, room.device));
        std::string lack = objection_to_layers(file, model->shape(), room.refused);
        // What is cut cannot be had from a device that is not joined.
        if (room.cut != nullptr) {
            lack = lack_of(word.graph, room.device);
            if (lack.empty()) lack = lack_of(prompt.graph, room.device);
        }
        if (!lack.empty()) options.left_out.push_back({room.device.name(), "no " + lack});
        return !lack.empty();
    });
    return ok();
}

}  // namespace

Result<std::map<std::string, std::size_t>> Generator::result_bytes(Scheduler& scheduler,
                                                                   const Prepared& prepared) {
    HEDDLE_TRY(pin_norms(scheduler, prepared.batch));
    std::vector<std::size_t> sizes(scheduler.streams().size());
    detail::call([&] {
        ggml_backend_sched_reserve_size(scheduler.c(), prepared.graph.c(), sizes.data());
        return 0;
    });
    HEDDLE_TRY(detail::check_said(Errc::device));
    HEDDLE_TRY_ASSIGN(const Device cpu, Device::cpu());
    std::map<std::string, std::size_t> bytes;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        // Helpers compute in memory of the host, joined devices each in memory of its own.
        ggml_backend_t stream = scheduler.streams()[i].c();
        const ggml_backend_dev_t owner =
            ggml_backend_buft_get_device(ggml_backend_sched_get_buffer_type(scheduler.c(), stream));
        if (ggml_backend_is_meta(stream)) sizes[i] *= ggml_backend_meta_n_backends(stream);
        bytes[owner != nullptr ? ggml_backend_dev_name(owner) : cpu.name()] += sizes[i];
    }
    return bytes;
}

Result<Generator::Options> Generator::fit(const ModelFile& file, const Options& options) {
    Options fitted = options;
    if (options.join) {
        HEDDLE_TRY_ASSIGN(Room all, joined_room(file, options.rooms));
        fitted.rooms = {std::move(all)};
    }
    if (!fitted.rooms.empty()) HEDDLE_TRY(leave_out_useless(file, fitted));
    if (fitted.rooms.empty()) return fitted;
    // As if there were no budgets: results need about the same however many layers there are.
    Options free = fitted;
    for (Room& room : free.rooms) room.budget = 0;
    free.policy = Scheduler::Policy::rules;
    HEDDLE_TRY_ASSIGN(const auto model, Llama::load(file, {.rooms = free.rooms,
                                                           .context = options.context,
                                                           .on_tensor = {},
                                                           .only_describe = true}));
    HEDDLE_TRY_ASSIGN(Scheduler scheduler, make_scheduler(*model, free));
    HEDDLE_TRY_ASSIGN(const auto largest,
                      describe_largest(*model, options.batch, options.every_token));
    HEDDLE_TRY_ASSIGN(auto bytes, result_bytes(scheduler, largest));
    for (Room& room : fitted.rooms) room.results = bytes[room.device.name()];
    return fitted;
}

Result<Generator::Prepared> Generator::describe_largest(const Llama& model, std::size_t batch,
                                                        bool every_token) {
    // The last tokens of a full context need most.
    const std::int64_t tokens =
        std::clamp<std::int64_t>(static_cast<std::int64_t>(batch), 1, model.context());
    return describe(model, tokens, model.context(), every_token);
}

}  // namespace heddle::tool
