#include <algorithm>

#include "model/generator.hpp"
#include "model/placement_text.hpp"

/// What happens when a device fails in the middle of a text.
namespace heddle::tool {

std::vector<Fault> Generator::faults(const Error& reason) const {
    std::vector<Device> failed = scheduler_->left_out();
    if (failed.empty() && suspect_ && !suspect_->is_cpu()) failed.push_back(*suspect_);
    std::vector<Fault> found;
    for (const Device& device : failed) {
        const auto room = std::ranges::find(fitted_.rooms, device, &Room::device);
        if (room == fitted_.rooms.end() || room->cut == nullptr) {
            found.push_back({device, reason.message});
            continue;
        }
        // Joined devices fail as one, but the others can be joined anew.
        for (Fault& fault : faults_among(room->cut->devices, reason.message)) {
            found.push_back(std::move(fault));
        }
    }
    return found;
}

bool Generator::lose(const Device& device, const std::string& message) {
    const std::size_t known =
        std::erase_if(wanted_.rooms, [&](const Room& room) { return room.device == device; }) +
        std::erase(wanted_.helpers, device);
    if (known == 0) return false;
    losses_.push_back({device.name(), said_once(device.name(), message)});
    wanted_.on_loss(losses_.back());
    return true;
}

Result<> Generator::go_on_without(const std::vector<Fault>& faults, const Error& reason) {
    bool any = false;
    for (const Fault& fault : faults) any |= lose(fault.device, fault.message);
    if (!any) return reason;
    // Fewer devices can share whatever more could, but one has all of it.
    wanted_.join = wanted_.join && wanted_.rooms.size() > 1;
    auto placed = place_model();
    std::vector<Device> others = wanted_.helpers;
    for (const Room& room : wanted_.rooms) others.push_back(room.device);
    if (placed || others.empty()) return placed;
    // Which of the others is at fault is not known, but the processor can do without them.
    for (const Device& device : others) lose(device, placed.error().message);
    wanted_.join = false;
    return place_model();
}

}  // namespace heddle::tool
