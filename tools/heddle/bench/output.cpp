#include "bench/output.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <thread>

#include "console.hpp"
#include "heddle/heddle.hpp"
#include "interrupt.hpp"
#include "json_text.hpp"
#include "number_checks.hpp"
#include "outcome.hpp"
#include "shared_options.hpp"

namespace heddle::tool::bench {

void Output::add_options(CLI::App& command, bool with_picture) {
    CLI::Option* as_json = add_shared_flag(command, shared::kJson, json);
    command.add_flag("--csv", csv, "The table as comma-separated values")->excludes(as_json);
    if (!with_picture) return;
    command.add_option("--svg", svg, "Draw a roofline picture")->type_name("FILE");
    add_shared(command, shared::kHtml, html, ": picture and table");
}

Result<> Output::check() const {
    watch_interrupts();
    return check_output_files({svg, html});
}

Result<> Output::show(Report& report, const Roofline& roofline) const {
    const bool is_stopped = take_interrupt();
    if (is_stopped) report.add_note("stopped by Ctrl-C: not all was measured");
    if (!svg.empty()) HEDDLE_TRY(write_file(svg, roofline.svg()));
    if (!html.empty()) HEDDLE_TRY(write_file(html, roofline.html(report.html())));
    if (json) {
        print("{}\n", json_text(report.json()));
    } else if (csv) {
        print("{}", report.csv());
    } else {
        report.print_table();
    }
    if (is_stopped) end_by_interrupt();
    return ok();
}

void Common::add_options(CLI::App& command, bool with_picture) {
    add_shared(command, shared::kThreads, threads, kSeveralThreads)
        ->default_str("1, 2, 4 and so on up to all")
        ->delimiter(',')
        ->check(whole_number(1, kMostThreads));
    add_shared_flag(command, shared::kQuick, quick);
    output.add_options(command, with_picture);
}

void Common::add_median(CLI::App& command) {
    command.add_flag("--median", by_median, "Rate by median runs instead of best ones");
}

std::vector<int> Common::thread_counts() const {
    if (!threads.empty()) return threads;
    const int all = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    std::vector<int> counts;
    for (int count = 1; count < all; count *= 2) counts.push_back(count);
    counts.push_back(all);
    return counts;
}

void add_instruction_set(CLI::App& command, std::string& name) {
    add_shared(command, shared::kIsa, name)->capture_default_str();
}

Result<> choose_instruction_set(const Target& target, const std::string& name) {
    if (name == "best") return ok();  // a device may have no choice
    return target.use_instruction_set(name);
}

std::size_t memory_to_use(bool quick) {
    constexpr std::size_t kGiB = std::size_t{1} << 30;
    const auto cpu = Device::cpu();
    const std::size_t free = cpu ? cpu->memory().free : 0;
    return std::min(quick ? kGiB / 8 : kGiB, std::max(free / 4, kGiB / 64));
}

}  // namespace heddle::tool::bench
