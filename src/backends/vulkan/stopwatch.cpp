#include "backends/vulkan/stopwatch.hpp"

#include <algorithm>
#include <cstdio>
#include <map>

#include "backends/vulkan/timeline.hpp"

namespace heddle::vulkan {

std::uint64_t ticks_between(std::uint64_t first, std::uint64_t second, std::uint32_t bits) {
    return (second - first) & ~std::uint64_t{0} >> (64 - bits);
}

Result<Stopwatch> Stopwatch::make(Gpu& gpu, std::uint32_t parts) {
    Stopwatch made(gpu, parts);
    VkQueryPoolCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO;
    info.queryType = VK_QUERY_TYPE_TIMESTAMP;
    info.queryCount = parts + 1;
    HEDDLE_TRY(gpu.check(gpu.api().CreateQueryPool(gpu.handle(), &info, nullptr, &made.pool_),
                         "making a pool of times"));
    return made;
}

Stopwatch::~Stopwatch() {
    if (pool_ != VK_NULL_HANDLE) gpu_->api().DestroyQueryPool(gpu_->handle(), pool_, nullptr);
}

void Stopwatch::mark(VkCommandBuffer commands) {
    const DeviceApi& api = gpu_->api();
    if (marks_ == 0) api.CmdResetQueryPool(commands, pool_, 0, parts_ + 1);
    kernel_barrier(api, commands);
    api.CmdWriteTimestamp(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, pool_, marks_++);
}

Result<std::vector<double>> Stopwatch::microseconds() const {
    std::vector<std::uint64_t> ticks(marks_);
    constexpr auto flags = VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT;
    HEDDLE_TRY(gpu_->check(gpu_->api().GetQueryPoolResults(gpu_->handle(), pool_, 0, marks_,
                                                           ticks.size() * sizeof ticks[0],
                                                           ticks.data(), sizeof ticks[0], flags),
                           "reading times"));
    const double period = double{gpu_->board().properties.limits.timestampPeriod} / 1000;
    std::vector<double> times;
    for (std::size_t i = 1; i < ticks.size(); ++i) {
        const auto passed = ticks_between(ticks[i - 1], ticks[i], gpu_->board().time_bits);
        times.push_back(static_cast<double>(passed) * period);
    }
    return times;
}

std::string table_of_times(const std::vector<std::string>& names,
                           const std::vector<double>& microseconds) {
    struct Sum {
        std::string name;
        double microseconds = 0;
        int count = 0;
    };
    std::map<std::string, Sum> by_name;
    double all = 0;
    for (std::size_t i = 0; i < std::min(names.size(), microseconds.size()); ++i) {
        Sum& sum = by_name[names[i]];
        sum.name = names[i];
        sum.microseconds += microseconds[i];
        sum.count++;
        all += microseconds[i];
    }
    std::vector<Sum> sums;
    for (const auto& [name, sum] : by_name) sums.push_back(sum);
    std::ranges::stable_sort(sums, std::greater{}, &Sum::microseconds);
    std::string table = "      us share  times  us each  what\n";
    for (const Sum& each : sums) {
        char line[64];
        std::snprintf(line, sizeof line, "%8.1f %4.1f%% %6d %8.2f  ", each.microseconds,
                      100 * each.microseconds / all, each.count, each.microseconds / each.count);
        table += line + each.name + '\n';
    }
    return table + text(all, " us in all, each part alone");
}

}  // namespace heddle::vulkan
