#pragma once

#include <filesystem>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/plugins.h"

namespace heddle {

using PluginStatus = ::heddle_plugin_status;

/// What became of one backend: see heddle/plugins.h.
struct PluginRecord {
    std::string path;  ///< empty for a built-in backend
    std::string name;
    PluginStatus status = HEDDLE_PLUGIN_REJECTED;
    std::string reason;
    int score = -1;
    int api_version = -1;
};

/// The records of a process. Any thread may call anything at any time.
class PluginReport {
public:
    /// Puts a record where an earlier one of the same file (or built-in name) is, else at the end.
    /// A file that is in use stays so in the report, whatever a later attempt on it says.
    void note(PluginRecord record);

    /// Adds a record unless the file has one.
    void note_if_new(PluginRecord record);

    /// Room for one more record: the next `note` needs no memory then.
    void make_room();

    /// Marks the record of a file (or, if `path` is empty, of the built-in backend `name`) as taken
    /// out.
    void note_unloaded(std::string_view path, std::string_view name, std::string reason) noexcept;

    std::vector<PluginRecord> records() const;

private:
    /// The record of the same file or built-in name; the end if there is none. Called with the
    /// lock.
    std::vector<PluginRecord>::iterator find(const PluginRecord& record);

    mutable std::mutex mutex_;
    std::vector<PluginRecord> records_;
};

}  // namespace heddle
