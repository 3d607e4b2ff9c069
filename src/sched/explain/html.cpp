#include <string>
#include <string_view>

#include "sched/explain/schedule.hpp"

namespace heddle::sched {
namespace {

/// `page.html`, cut into pieces because compilers limit the length of a literal. Written by the
/// build.
constexpr std::string_view kPage[] = {
#include "sched_page.inc"
};

/// Where the page wants the schedule.
constexpr std::string_view kMark = "@SCHEDULE@";

}  // namespace

std::string to_html(const Schedule& schedule) {
    std::string page;
    for (const std::string_view piece : kPage) page += piece;
    if (const std::size_t at = page.find(kMark); at != std::string::npos) {
        page.replace(at, kMark.size(), to_json(schedule));
    }
    return page;
}

}  // namespace heddle::sched
