#include "backends/cpu/topology.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <thread>

#if defined(__linux__)
#include <fcntl.h>
#include <sched.h>
#endif
#if defined(__unix__) || defined(__APPLE__)
#include <unistd.h>
#endif

namespace heddle::cpu {
namespace {

/// Beyond any machine; keeps a broken list from filling memory.
constexpr int kHighestCpu = 1 << 16;

std::string_view trim(std::string_view text) {
    constexpr std::string_view kBlanks = " \t\r\n";
    const auto first = text.find_first_not_of(kBlanks);
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

Result<int> parse_number(std::string_view text) {
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || value < 0) {
        return invalid("'", text, "' is not the number of a CPU");
    }
    if (value > kHighestCpu) return invalid("CPU ", value, " is above ", kHighestCpu);
    return value;
}

}  // namespace

std::string read_file(const std::string& path) {
    std::ifstream file(path);
    std::string text;
    std::getline(file, text, '\0');  // keeps to itself what the buffer throws if reading fails
    return file.bad() ? "" : text;
}

Result<CpuList> parse_cpu_list(std::string_view text) {
    CpuList cpus;
    text = trim(text);
    while (!text.empty()) {
        const auto comma = std::min(text.find(','), text.size());
        const std::string_view part = text.substr(0, comma);
        const auto dash = part.find('-');
        HEDDLE_TRY_ASSIGN(const int first, parse_number(part.substr(0, dash)));
        int last = first;
        if (dash != std::string_view::npos) {
            HEDDLE_TRY_ASSIGN(last, parse_number(part.substr(dash + 1)));
        }
        if (last < first) return invalid("CPUs ", part, " run backwards");
        for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
        text.remove_prefix(std::min(comma + 1, text.size()));
    }
    std::sort(cpus.begin(), cpus.end());
    cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
    return cpus;
}

std::vector<NumaNode> read_numa_nodes(const std::string& root) {
    std::vector<NumaNode> nodes;
    auto numbers = parse_cpu_list(read_file(root + "/online"));
    if (!numbers) return nodes;
    for (const int number : *numbers) {
        auto cpus = parse_cpu_list(read_file(root + "/node" + std::to_string(number) + "/cpulist"));
        if (cpus && !cpus->empty()) nodes.push_back({number, *std::move(cpus)});
    }
    return nodes;
}

int read_cpu_quota(const std::string& path) {
    const std::string line = read_file(path);
    const auto blank = line.find(' ');
    if (blank == std::string::npos) return 0;
    long quota = 0, period = 0;
    std::from_chars(line.data(), line.data() + blank, quota);
    std::from_chars(line.data() + blank + 1, line.data() + line.size(), period);
    if (quota <= 0 || period <= 0) return 0;
    return static_cast<int>(std::min((quota + period - 1) / period, long{kHighestCpu}));
}

int usable_cpus() {
    static const int count = [] {
        auto cpus = static_cast<int>(thread_cpus().size());
        if (cpus == 0) cpus = static_cast<int>(std::thread::hardware_concurrency());
        if (const int quota = read_cpu_quota(); quota > 0) cpus = std::min(cpus, quota);
        return std::max(cpus, 1);
    }();
    return count;
}

#if defined(__linux__)

CpuList thread_cpus() {
    // The kernel refuses a set that is smaller than its own, so ask with growing ones.
    for (int limit = 1024; limit <= kHighestCpu; limit *= 4) {
        std::vector<cpu_set_t> set(static_cast<std::size_t>(limit) / CPU_SETSIZE);
        const std::size_t bytes = set.size() * sizeof(cpu_set_t);
        if (sched_getaffinity(0, bytes, set.data()) != 0) {
            if (errno == EINVAL) continue;
            return {};
        }
        CpuList cpus;
        for (int cpu = 0; cpu < limit; ++cpu) {
            if (CPU_ISSET_S(cpu, bytes, set.data())) cpus.push_back(cpu);
        }
        return cpus;
    }
    return {};
}

Result<> pin_thread(const CpuList& cpus) {
    if (cpus.empty()) return invalid("a thread cannot be pinned to no CPU at all");
    if (cpus.back() >= kHighestCpu) return invalid("CPU ", cpus.back(), " does not exist");
    std::vector<cpu_set_t> set(static_cast<std::size_t>(cpus.back()) / CPU_SETSIZE + 1);
    const std::size_t bytes = set.size() * sizeof(cpu_set_t);
    for (const int cpu : cpus) CPU_SET_S(cpu, bytes, set.data());
    if (sched_setaffinity(0, bytes, set.data()) == 0) return ok();
    return failure(Errc::device, "a thread cannot be pinned to CPUs ", cpus.front(), " to ",
                   cpus.back(), ": ", std::strerror(errno));
}

int current_cpu() { return sched_getcpu(); }

#else

CpuList thread_cpus() { return {}; }
Result<> pin_thread(const CpuList&) {
    return failure(Errc::unsupported, "threads cannot be pinned on this system");
}
int current_cpu() { return -1; }

#endif

std::string_view find_value(std::string_view text, std::string_view key) {
    while (!text.empty()) {
        const auto end = std::min(text.find('\n'), text.size());
        const std::string_view line = text.substr(0, end);
        const auto colon = line.find(':');
        if (colon != std::string_view::npos && trim(line.substr(0, colon)) == key) {
            return trim(line.substr(colon + 1));
        }
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return {};
}

std::string cpu_model() {
    const std::string info = read_file("/proc/cpuinfo");
    const std::string_view model = find_value(info, "model name");
    return model.empty() ? "CPU" : std::string(model);
}

std::size_t physical_memory() {
#if defined(_SC_PHYS_PAGES) && defined(_SC_PAGE_SIZE)
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGE_SIZE);
    if (pages > 0 && page > 0)
        return static_cast<std::size_t>(pages) * static_cast<std::size_t>(page);
#endif
    return 0;
}

std::size_t available_memory(std::string_view meminfo) {
    const std::string_view value = find_value(meminfo, "MemAvailable");
    std::size_t kibibytes = 0;
    const auto [rest, problem] =
        std::from_chars(value.data(), value.data() + value.size(), kibibytes);
    if (problem != std::errc() || rest == value.data() || kibibytes > SIZE_MAX / 1024) return 0;
    return kibibytes * 1024;
}

std::size_t available_memory() {
    const std::size_t total = physical_memory();
#if defined(__linux__)
    // Asked when memory is short, so it needs none: the line is among the first of a short file.
    std::array<char, 4096> beginning;
    const int file = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
    if (file < 0) return total;
    const ssize_t count = read(file, beginning.data(), beginning.size());
    close(file);
    const std::size_t available =
        available_memory({beginning.data(), count > 0 ? static_cast<std::size_t>(count) : 0});
    if (available != 0) return std::min(available, total);
#endif
    return total;
}

}  // namespace heddle::cpu
