#include "device_choice.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>

#include "console.hpp"
#include "number_checks.hpp"
#include "shared_options.hpp"
#include "target.hpp"

namespace heddle::tool {
namespace {

void take(const Device& device, DeviceChoice& choice) {
    const auto known = [&](const Room& room) { return room.device == device; };
    switch (device.type()) {
        case GGML_BACKEND_DEVICE_TYPE_CPU:
            return;  // always there
        case GGML_BACKEND_DEVICE_TYPE_ACCEL:
            if (std::ranges::find(choice.helpers, device) == choice.helpers.end()) {
                choice.helpers.push_back(device);
            }
            return;
        default:
            if (std::ranges::none_of(choice.rooms, known)) choice.rooms.push_back({device, 0});
    }
}

Result<> take_named(const std::string& name, DeviceChoice& choice) {
    HEDDLE_TRY_ASSIGN(const Device device, device_named(name));
    if (name.find(':') == std::string::npos || device.name() == name) {
        take(device, choice);
        return ok();
    }
    // The parameters made devices; all of them are meant.
    ggml_backend_reg_t registration = ggml_backend_dev_backend_reg(device.c());
    for (std::size_t i = 0; i < ggml_backend_reg_dev_count(registration); ++i) {
        take(Device(ggml_backend_reg_dev_get(registration, i)), choice);
    }
    return ok();
}

Result<> set_budget(const std::string& text, DeviceChoice& choice) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos) {
        return invalid("--budget ", text, ": give a device and a size, such as CUDA0=2G");
    }
    HEDDLE_TRY_ASSIGN(const std::size_t bytes, parse_bytes(text.substr(equals + 1)));
    const std::string name = text.substr(0, equals);
    HEDDLE_TRY_ASSIGN(const Device device, device_named(name));
    const auto room = std::ranges::find(choice.rooms, device, &Room::device);
    if (room == choice.rooms.end()) {
        return invalid("--budget ", text, ": no layers are placed on ", device.name());
    }
    room->budget = bytes;
    return ok();
}

/// The type of the first matrix of blocks; null if there is none.
const char* quantised_type(const ModelFile& file) {
    for (ggml_tensor* t = ggml_get_first_tensor(file.tensors()); t != nullptr;
         t = ggml_get_next_tensor(file.tensors(), t)) {
        if (ggml_is_quantized(t->type)) return ggml_type_name(t->type);
    }
    return nullptr;
}

}  // namespace

void RunsOn::add_options(CLI::App& command) {
    command.option_defaults()->group("Devices");
    add_shared(command, shared::kDevice, devices)->default_str("all with memory of their own");
    add_shared(command, shared::kBudget, budgets);
    add_shared_flag(command, shared::kJoin, join);
    command.add_option("--policy", policy, "Place nodes by rules or by cost")
        ->capture_default_str()
        ->check(CLI::IsMember({"rules", "cost"}));
    add_shared(command, shared::kThreads, threads)
        ->default_str("one for each core")
        ->check(whole_number(1, kMostThreads));
    command.add_option("-c,--context", context, "Tokens to make room for")
        ->default_str("what the model was trained for")
        ->check(whole_number(std::int64_t{1}, std::int64_t{1} << 24));
    add_shared(command, shared::kIsa, instruction_set)->capture_default_str();
    add_shared_flag(command, shared::kNoFusion, no_fusion);
    add_shared_flag(command, shared::kMapped, mapped);
}

Result<std::size_t> parse_bytes(const std::string& text) {
    std::size_t number = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, problem] = std::from_chars(text.data(), end, number);
    int shift = 0;
    if (problem == std::errc() && rest + 1 == end) {
        const char unit = static_cast<char>(std::toupper(static_cast<unsigned char>(*rest)));
        shift = unit == 'K' ? 10 : unit == 'M' ? 20 : unit == 'G' ? 30 : unit == 'T' ? 40 : -1;
    } else if (problem != std::errc() || rest != end) {
        shift = -1;
    }
    if (shift < 0 || number == 0 || number > (SIZE_MAX >> shift)) {
        return invalid("'", text, "' is not a number of bytes such as 512M");
    }
    return number << shift;
}

Result<DeviceChoice> choose_devices(const std::vector<std::string>& names,
                                    const std::vector<std::string>& budgets) {
    DeviceChoice choice;
    if (names.empty()) {
        for (const Device& device : Device::all()) {
            if (device.type() != GGML_BACKEND_DEVICE_TYPE_ACCEL) take(device, choice);
        }
    }
    for (const std::string& list : names) {
        const std::vector<std::string> parts = device_names(list);
        if (parts.empty()) return invalid("--device '", list, "': names no device");
        for (const std::string& name : parts) HEDDLE_TRY(take_named(name, choice));
    }
    for (const std::string& budget : budgets) HEDDLE_TRY(set_budget(budget, choice));
    return choice;
}

Result<DeviceChoice> RunsOn::choose(const ModelFile& file) const {
    if (join && !budgets.empty()) {
        return invalid("--budget ", budgets.front(),
                       " does not go with --join, which gives each device a part of every layer");
    }
    if (join && policy == "cost") {
        return invalid("--policy cost: with --join all nodes of a layer stay together");
    }
    HEDDLE_TRY_ASSIGN(DeviceChoice choice, choose_devices(devices, budgets));
    if (instruction_set != "best") {
        HEDDLE_TRY_ASSIGN(const Target processor, Target::open("CPU"));
        HEDDLE_TRY(processor.use_instruction_set(instruction_set));
    }
    const char* const type = quantised_type(file);
    if (type == nullptr) return choice;
    for (const Device& helper : std::exchange(choice.helpers, {})) {
        print_note("[" + helper.name() + " is left out: it leaves weights of " + type +
                   " to the processor, which is faster]");
    }
    return choice;
}

Result<Generator::Options> RunsOn::generator_options(const ModelFile& file) const {
    HEDDLE_TRY_ASSIGN(DeviceChoice choice, choose(file));
    Generator::Options options;
    options.rooms = std::move(choice.rooms);
    options.helpers = std::move(choice.helpers);
    options.threads = threads;
    options.context = context;
    options.policy = policy == "cost" ? Scheduler::Policy::cost : Scheduler::Policy::rules;
    options.mapped = mapped;
    options.no_fusion = no_fusion;
    options.join = join;
    return options;
}

}  // namespace heddle::tool
