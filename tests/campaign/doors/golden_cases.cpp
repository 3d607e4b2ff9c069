#include "golden_cases.hpp"

#include <cstdlib>
#include <map>

#include "tests/campaign/settings.hpp"

namespace heddle::campaign {
namespace {

/// Files are read when they are first chosen: most children live too short for all of them.
class GoldenFiles {
public:
    GoldenFiles() {
        auto paths = golden::list_case_files(settings().data + "/golden");
        if (!paths) std::abort();  // not where it was when this program was built, see --data
        for (const std::string& path : *paths) {
            // Whole graphs have no node to begin with.
            if (path.find("/graph_") == path.npos) paths_.push_back(path);
        }
    }

    const golden::OpCase& any(Choices& choices) {
        const auto& cases = read(choices.below(static_cast<std::uint32_t>(paths_.size())));
        return cases[choices.below(static_cast<std::uint32_t>(cases.size()))];
    }

private:
    const std::vector<golden::OpCase>& read(std::uint32_t number) {
        auto [found, is_new] = files_.try_emplace(number);
        if (is_new) {
            auto file = golden::read_case_file(paths_[number]);
            if (!file || file->ops.empty()) std::abort();  // not the data it was built with
            found->second = std::move(file->ops);
        }
        return found->second;
    }

    std::vector<std::string> paths_;
    std::map<std::uint32_t, std::vector<golden::OpCase>> files_;
};

}  // namespace

const golden::OpCase& any_golden_case(Choices& choices) {
    static GoldenFiles files;
    return files.any(choices);
}

}  // namespace heddle::campaign
