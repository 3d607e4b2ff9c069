#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backends/mpi/client/cluster.hpp"
#include "backends/mpi/fabric_mpi.hpp"

namespace heddle::mpi {

/// What users ask for in the environment, as text; empty where they do not.
struct Environment {
    std::string hosts, worker, timeout, start_timeout, graph_timeout, files, verify, sum, poll,
        order, digests, cache;
};

/// "n1,n2:2": each host as often as workers are to run there.
Result<std::vector<std::string>> parse_hosts(std::string_view list);

/// "2.5" seconds, above zero and below a day.
Result<std::chrono::milliseconds> parse_seconds(const std::string& text, const char* variable);

/// Words of a command, one or more spaces apart.
std::vector<std::string> split_words(std::string_view text);

/// "/models=/data/models,/a=/b": folders here, and what they are called there.
Result<std::vector<std::pair<std::string, std::string>>> parse_folders(std::string_view list);

Result<Verify> parse_verify(const std::string& text);
Result<Offering> parse_offering(const std::string& text);

/// digests.tsv in the folder of caches; empty where there is none.
std::string digest_file(const std::string& cache_home, const std::string& home);

/// "ordered", "mpi"; "auto", which is the former as long as there are no sums by NCCL.
Result<SumsBy> parse_sum(const std::string& text);

/// "auto", "spin", or microseconds between two looks for messages.
Result<Polling> parse_polling(const std::string& text);

Result<Settings> settings_of(const Environment& environment);

/// `heddle worker` of the library at `library`: in the folders that programs lie in beside it.
std::vector<std::string> default_worker(const std::string& library);

/// Workers in threads of this process: "threads=2,devices=CPU+SIM0".
struct LocalWorkers {
    int threads = 1;
    std::vector<std::string> devices{"CPU"};
};
Result<LocalWorkers> parse_local(std::string_view parameters);

}  // namespace heddle::mpi
