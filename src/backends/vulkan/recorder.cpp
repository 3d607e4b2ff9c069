#include "backends/vulkan/recorder.hpp"

namespace heddle::vulkan {

std::array<std::uint32_t, 3> fold_groups(std::int64_t groups, std::uint32_t most) {
    const std::int64_t down = (groups + most - 1) / most;
    const std::int64_t across = down > 0 ? (groups + down - 1) / down : 0;
    return {static_cast<std::uint32_t>(across), static_cast<std::uint32_t>(down), 1};
}

void Recorder::run(const Work& work, const Arguments& arguments, std::int64_t count,
                   std::int64_t groups) {
    if (groups <= 0) return;
    Dispatch dispatch{.shader = work.shader, .specialization = {}};
    dispatch.specialization.values[0] = work.workgroup;
    std::ranges::copy(work.values, dispatch.specialization.values.begin() + 1);
    dispatch.groups = fold_groups(groups, std::min(device_.group_count, 65535u));
    dispatch.push_size = sizeof(std::uint64_t);
    const std::size_t at = bytes_.size();
    dispatch.arguments = static_cast<std::int64_t>(at);
    Arguments own = arguments;
    own.count = static_cast<std::uint32_t>(count);
    own.scratch = scratch_;
    constexpr std::size_t unit = alignof(Arguments);
    bytes_.resize(at + sizeof own + (work.extra.size() + unit - 1) / unit * unit);
    std::memcpy(bytes_.data() + at, &own, sizeof own);
    if (!work.extra.empty()) {
        std::memcpy(bytes_.data() + at + sizeof own, work.extra.data(), work.extra.size());
    }
    places_.push_back(at);
    commands_.push_back(dispatch);
}

void Recorder::run_elements(const Work& work, const Arguments& arguments, std::int64_t count) {
    run(work, arguments, count, (count + work.workgroup - 1) / work.workgroup);
}

void Recorder::run_rows(const Work& work, const Arguments& arguments, std::int64_t count) {
    run(work, arguments, count, count);
}

std::vector<std::byte> Recorder::arguments_at(std::uint64_t address, std::uint64_t faults,
                                              std::uint64_t codebooks) const {
    std::vector<std::byte> bytes = bytes_;
    for (const std::size_t place : places_) {
        Arguments arguments;
        std::memcpy(&arguments, bytes.data() + place, sizeof arguments);
        arguments.faults = faults;
        arguments.codebooks = codebooks;
        arguments.extra = address + place + sizeof arguments;
        std::memcpy(bytes.data() + place, &arguments, sizeof arguments);
    }
    return bytes;
}

}  // namespace heddle::vulkan
