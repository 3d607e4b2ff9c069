#include "registry/plugin_report.hpp"

#include <algorithm>
#include <utility>

namespace heddle {
namespace {

bool in_use(const PluginRecord& record) {
    return record.status == HEDDLE_PLUGIN_BUILT_IN || record.status == HEDDLE_PLUGIN_LOADED;
}

}  // namespace

std::vector<PluginRecord>::iterator PluginReport::find(const PluginRecord& record) {
    return std::find_if(records_.begin(), records_.end(), [&](const PluginRecord& old) {
        return old.path == record.path && (!old.path.empty() || old.name == record.name);
    });
}

void PluginReport::note(PluginRecord record) {
    const std::lock_guard lock(mutex_);
    const auto known = find(record);
    if (known == records_.end()) {
        records_.push_back(std::move(record));
    } else if (in_use(record) || !in_use(*known)) {
        *known = std::move(record);
    }
}

void PluginReport::note_if_new(PluginRecord record) {
    const std::lock_guard lock(mutex_);
    if (find(record) == records_.end()) records_.push_back(std::move(record));
}

void PluginReport::make_room() {
    const std::lock_guard lock(mutex_);
    records_.reserve(records_.size() + 1);
}

void PluginReport::note_unloaded(std::string_view path, std::string_view name,
                                 std::string reason) noexcept {
    const std::lock_guard lock(mutex_);
    for (PluginRecord& record : records_) {
        if (record.path != path || record.name != name || !in_use(record)) continue;
        record.status = HEDDLE_PLUGIN_UNLOADED;
        record.reason = std::move(reason);
        return;
    }
}

std::vector<PluginRecord> PluginReport::records() const {
    const std::lock_guard lock(mutex_);
    return records_;
}

}  // namespace heddle
