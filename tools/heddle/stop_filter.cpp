#include "stop_filter.hpp"

#include <algorithm>
#include <utility>

#include "core/printable.hpp"

namespace heddle::tool {

std::size_t StopFilter::free_bytes() const {
    std::size_t free = waiting_.size();
    for (const std::string& stop : stops_) {
        const std::size_t longest = std::min(stop.size(), waiting_.size());
        for (std::size_t n = longest; n > 0; --n) {
            if (!waiting_.ends_with(std::string_view(stop).substr(0, n))) continue;
            free = std::min(free, waiting_.size() - n);
            break;
        }
    }
    return free;
}

std::string StopFilter::add(std::string_view bytes) {
    if (is_stopped_) return {};
    waiting_ += bytes;
    std::size_t end = std::string::npos;
    for (const std::string& stop : stops_) end = std::min(end, waiting_.find(stop));
    if (end != std::string::npos) {
        is_stopped_ = true;
        waiting_.erase(end);
        return std::exchange(waiting_, {});
    }
    const std::size_t shown = whole_characters(std::string_view(waiting_).substr(0, free_bytes()));
    std::string text = waiting_.substr(0, shown);
    waiting_.erase(0, shown);
    return text;
}

std::string StopFilter::rest() { return std::exchange(waiting_, {}); }

}  // namespace heddle::tool
