#include "backends/mpi/environment.hpp"

#include <charconv>
#include <cmath>
#include <filesystem>

#include "core/cache_folder.hpp"

namespace heddle::mpi {
namespace {

std::vector<std::string> split(std::string_view text, char separator) {
    std::vector<std::string> parts;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find(separator), text.size());
        if (end > 0) parts.emplace_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return parts;
}

/// Zero if it is no whole number from 1 to `most`.
int parse_count(std::string_view text, int most) {
    int count = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), count);
    const bool fits = problem == std::errc() && end == text.data() + text.size();
    return fits && count >= 1 && count <= most ? count : 0;
}

}  // namespace

std::vector<std::string> split_words(std::string_view text) { return split(text, ' '); }

Result<std::vector<std::string>> parse_hosts(std::string_view list) {
    constexpr int kMostWorkers = 1024;
    std::vector<std::string> hosts;
    for (const std::string& entry : split(list, ',')) {
        const std::size_t colon = entry.rfind(':');
        const bool counts = colon != std::string::npos;
        const int count =
            counts ? parse_count(std::string_view(entry).substr(colon + 1), kMostWorkers) : 1;
        const std::string host = entry.substr(0, colon);
        if (count == 0 || host.empty() || host.front() == '-' ||
            host.find_first_of(" \t\n;|&$`'\"") != std::string::npos) {
            return invalid("'", entry, "' is no host such as n1 or n1:2");
        }
        hosts.insert(hosts.end(), static_cast<std::size_t>(count), host);
    }
    if (hosts.empty()) return invalid("'", list, "' names no host");
    if (hosts.size() > kMostWorkers) {
        return invalid(hosts.size(), " workers, more than ", kMostWorkers);
    }
    return hosts;
}

Result<std::chrono::milliseconds> parse_seconds(const std::string& text, const char* variable) {
    constexpr double kLeast = 0.05, kMost = 86'400;
    double seconds = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), seconds);
    if (problem != std::errc() || end != text.data() + text.size() ||
        !(seconds >= kLeast && seconds <= kMost)) {
        return invalid(variable, "=", text, " is no number of seconds from ", kLeast, " to ",
                       kMost);
    }
    return std::chrono::milliseconds(std::lround(seconds * 1000));
}

Result<std::vector<std::pair<std::string, std::string>>> parse_folders(std::string_view list) {
    std::vector<std::pair<std::string, std::string>> folders;
    for (const std::string& entry : split(list, ',')) {
        const std::size_t equals = entry.find('=');
        const std::string here = entry.substr(0, equals);
        const std::string there = equals == std::string::npos ? "" : entry.substr(equals + 1);
        if (!here.starts_with('/') || !there.starts_with('/')) {
            return invalid("HEDDLE_MPI_FILES: '", entry,
                           "' is no pair of folders such as /models=/data/models");
        }
        folders.emplace_back(here, there);
    }
    return folders;
}

Result<Verify> parse_verify(const std::string& text) {
    if (text == "sample") return Verify::sample;
    if (text == "full") return Verify::full;
    if (text == "off") return Verify::off;
    return invalid("HEDDLE_MPI_VERIFY=", text, ": there are sample, full and off");
}

Result<Offering> parse_offering(const std::string& text) {
    if (text == "auto") return Offering::automatic;
    if (text == "always") return Offering::always;
    if (text == "never") return Offering::never;
    return invalid("HEDDLE_MPI_DIGESTS=", text, ": there are auto, always and never");
}

Result<Polling> parse_polling(const std::string& text) {
    constexpr int kMost = 100'000;
    if (text == "auto") return Polling{};
    if (text == "spin") return Polling{Polling::kSpin};
    if (const int count = parse_count(text, kMost); count > 0) {
        return Polling{static_cast<std::uint32_t>(count)};
    }
    return invalid("HEDDLE_MPI_POLL=", text, ": there are auto, spin and microseconds from 1 to ",
                   kMost);
}

std::string digest_file(const std::string& cache_home, const std::string& home) {
    const std::string folder = cache_folder(cache_home.c_str(), home.c_str());
    return folder.empty() ? folder : folder + "/digests.tsv";
}

Result<SumsBy> parse_sum(const std::string& text) {
    if (text == "ordered" || text == "auto") return SumsBy::order;
    if (text == "mpi") return SumsBy::mpi;
    if (text == "nccl") {
        return failure(Errc::unsupported,
                       "HEDDLE_MPI_SUM=nccl: this build has no sums by NCCL; there are ordered, "
                       "mpi and auto");
    }
    return invalid("HEDDLE_MPI_SUM=", text, ": there are ordered, mpi and auto");
}

Result<Settings> settings_of(const Environment& environment) {
    Settings settings;
    if (!environment.timeout.empty()) {
        HEDDLE_TRY_ASSIGN(settings.timeout,
                          parse_seconds(environment.timeout, "HEDDLE_MPI_TIMEOUT"));
    }
    if (!environment.start_timeout.empty()) {
        HEDDLE_TRY_ASSIGN(settings.start_timeout,
                          parse_seconds(environment.start_timeout, "HEDDLE_MPI_START_TIMEOUT"));
    }
    if (!environment.graph_timeout.empty()) {
        HEDDLE_TRY_ASSIGN(settings.graph_timeout,
                          parse_seconds(environment.graph_timeout, "HEDDLE_MPI_GRAPH_TIMEOUT"));
    }
    HEDDLE_TRY_ASSIGN(settings.folders, parse_folders(environment.files));
    if (!environment.verify.empty()) {
        HEDDLE_TRY_ASSIGN(settings.verify, parse_verify(environment.verify));
    }
    if (!environment.digests.empty()) {
        HEDDLE_TRY_ASSIGN(settings.offering, parse_offering(environment.digests));
    }
    settings.digests = std::make_shared<DigestStore>(environment.cache);
    if (!environment.poll.empty()) {
        HEDDLE_TRY_ASSIGN(settings.polling, parse_polling(environment.poll));
    }
    if (!environment.sum.empty()) {
        HEDDLE_TRY_ASSIGN(settings.sums, parse_sum(environment.sum));
    }
    // The registry goes by it.
    if (!environment.order.empty() && environment.order != "first" && environment.order != "last") {
        return invalid("HEDDLE_MPI_ORDER=", environment.order, ": there are first and last");
    }
    return settings;
}

std::vector<std::string> default_worker(const std::string& library) {
    namespace fs = std::filesystem;
    std::error_code ignored;
    fs::path folder = fs::path(library).parent_path();
    for (int up = 0; up < 5 && !folder.empty(); ++up, folder = folder.parent_path()) {
        for (const char* place : {"bin/heddle", "tools/heddle/heddle"}) {
            if (fs::is_regular_file(folder / place, ignored)) {
                return {(folder / place).string(), "worker"};
            }
        }
    }
    return {"heddle", "worker"};  // where the system looks for programs
}

Result<LocalWorkers> parse_local(std::string_view parameters) {
    constexpr int kMostThreads = 64;
    LocalWorkers local;
    for (const std::string& entry : split(parameters, ',')) {
        const std::size_t equals = entry.find('=');
        const std::string key = entry.substr(0, equals);
        const std::string value = equals == std::string::npos ? "" : entry.substr(equals + 1);
        if (key == "threads") {
            local.threads = parse_count(value, kMostThreads);
            if (local.threads == 0) {
                return invalid("threads=", value, ": a number from 1 to ", kMostThreads);
            }
        } else if (key == "devices") {
            local.devices = split(value, '+');
            if (local.devices.empty()) return invalid("devices=", value, ": names no device");
        } else {
            return invalid("'", entry, "': there are threads=NUMBER, devices=NAME+NAME and serve");
        }
    }
    return local;
}

}  // namespace heddle::mpi
