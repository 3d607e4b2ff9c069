#include "model/placement_text.hpp"

#include <algorithm>
#include <cmath>

namespace heddle::tool {
namespace {

/// A share of several: never all or nothing.
std::string percent_text(double part) {
    const auto percent = static_cast<int>(std::lround(part * 100));
    if (percent < 1) return "below 1 %";
    if (percent > 99) return "above 99 %";
    return std::to_string(percent) + " %";
}

}  // namespace

std::string places_text(const std::vector<std::string>& places) {
    const std::size_t layers = places.size() - 1;
    const std::string& output = places.back();
    const auto same = [&](const std::string& place) { return place == places.front(); };
    if (std::ranges::all_of(places, same)) return "all layers on " + output;
    std::string text;
    for (std::size_t i = 0; i < layers;) {
        std::size_t end = i;
        while (end < layers && places[end] == places[i]) ++end;
        text += i == 0 ? "" : ", ";
        if (end - i == layers) {
            text += "all layers";
        } else if (end - i == 1) {
            text += "layer " + std::to_string(i);
        } else {
            text += "layers " + std::to_string(i) + "-" + std::to_string(end - 1);
        }
        if (end == layers && places[i] == output) text += " and the output";
        text += " on " + places[i];
        i = end;
    }
    return places[layers - 1] == output ? text : text + ", the output on " + output;
}

std::string work_text(const std::vector<Share>& work) {
    if (work.empty()) return {};
    if (work.size() == 1) return work.front().device + " computed all the work";
    std::string text;
    for (const Share& share : work) {
        text += (text.empty() ? "" : ", ") + share.device + (text.empty() ? " computed " : " ") +
                percent_text(share.part) + (text.empty() ? " of the work" : "");
    }
    return text;
}

std::string joined_text(const std::vector<std::string>& devices) {
    std::string text;
    for (const std::string& device : devices) text += (text.empty() ? "; joined: " : ", ") + device;
    return text;
}

std::string left_out_text(const std::vector<LeftOut>& left_out) {
    std::string text;
    for (const LeftOut& one : left_out) text += "; " + one.device + " left out: " + one.reason;
    return text;
}

std::string said_once(const std::string& device, const std::string& message) {
    // From the outside in: what was tried, and what the device said, behind its name.
    const std::string mark = device + ": ", subject = device + " ", given = device + ", ";
    std::string reason = message;
    if (const std::size_t own = message.rfind(": " + mark); own != std::string::npos) {
        reason = message.substr(own + 2);
    } else if (const std::size_t of = message.find(": " + subject); of != std::string::npos) {
        reason = message.substr(of + 2);
    } else if (!message.starts_with(mark)) {
        const std::size_t last = message.rfind(": ");
        reason = message.substr(last == std::string::npos ? 0 : last + 2);
    }
    for (const std::string& known : {mark, std::string("compute: "), subject}) {
        if (reason.starts_with(known)) reason.erase(0, known.size());
    }
    std::string tried = message.substr(0, message.find(": "));
    if (tried.starts_with(given)) tried.erase(0, given.size());
    const bool is_enough = tried == device || tried == message || reason.empty() ||
                           reason.find("node '") != std::string::npos;
    return is_enough ? reason : tried + ": " + reason;
}

}  // namespace heddle::tool
