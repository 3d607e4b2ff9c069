#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include "commands.hpp"
#include "console.hpp"
#include "heddle/heddle.h"
#include "hosts.hpp"
#include "json_text.hpp"
#include "outcome.hpp"
#include "shared_options.hpp"

/// `heddle launch`: runs any program with the devices of other machines, after a look at them.
namespace heddle::tool {
namespace {

struct LaunchOptions {
    std::string list;
    std::vector<std::string> program;
    bool check = false, mpirun = false;
};

/// A host and how many workers run there.
struct Host {
    std::string name;
    int workers = 1;
};

Result<std::vector<Host>> parse(const std::string& list) {
    std::vector<Host> hosts;
    std::size_t begin = 0;
    while (begin < list.size()) {
        const std::size_t end = std::min(list.find(',', begin), list.size());
        const std::string entry = list.substr(begin, end - begin);
        const std::size_t colon = entry.rfind(':');
        Host host{entry.substr(0, colon), 1};
        if (colon != std::string::npos) {
            const char* const end = entry.data() + entry.size();
            const auto [stop, problem] =
                std::from_chars(entry.data() + colon + 1, end, host.workers);
            if (problem != std::errc() || stop != end) host.workers = 0;
        }
        if (host.name.empty() || host.name.front() == '-' || host.workers < 1) {
            return invalid("'", entry, "' is no host such as n1 or n1:2");
        }
        hosts.push_back(host);
        begin = end + 1;
    }
    if (hosts.empty()) return invalid("--hosts names no host");
    return hosts;
}

/// What a command prints within ten seconds; fails if it does not end well by then.
Result<std::string> capture(const std::vector<std::string>& words) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return failure(Errc::io, "no pipe: ", std::strerror(errno));
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    const pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        execvp(arguments[0], arguments.data());
        _exit(127);
    }
    close(ends[1]);
    std::string said;
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (child > 0) {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
            until - std::chrono::steady_clock::now());
        pollfd ready{ends[0], POLLIN, 0};
        char piece[4096];
        if (left.count() <= 0 || poll(&ready, 1, static_cast<int>(left.count())) <= 0) break;
        const ssize_t count = read(ends[0], piece, sizeof piece);
        if (count <= 0) break;
        said.append(piece, static_cast<std::size_t>(count));
    }
    close(ends[0]);
    if (child < 0) return failure(Errc::io, "no process: ", std::strerror(errno));
    const bool is_late = std::chrono::steady_clock::now() >= until;
    if (is_late) kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    if (is_late) return failure(Errc::device, "no answer within 10 s");
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        return failure(Errc::device, words.front(), " failed with status ", WEXITSTATUS(status));
    }
    return said;
}

/// Fails unless there is a worker of this version.
Result<> look_at(const Host& host) {
    const bool is_here = host.name == "localhost" || host.name == "127.0.0.1";
    std::vector<std::string> words{own_path(), "worker", "--describe"};
    if (!is_here) words = {"ssh", "-o", "BatchMode=yes", host.name, "heddle worker --describe"};
    auto said = capture(words);
    if (!said) return std::move(said).error().within(host.name);
    const auto facts = nlohmann::json::parse(*said, nullptr, false);
    if (facts.is_discarded() || !facts.contains("version") || !facts["version"].is_string()) {
        return failure(Errc::corrupt, host.name, ": heddle worker --describe printed no JSON");
    }
    const std::string version = facts["version"];
    if (version == heddle_version()) return ok();
    return failure(Errc::unsupported, host.name, ": has Heddle ", version, ", this is ",
                   heddle_version());
}

Result<> look_at_all(const std::vector<Host>& hosts) {
    std::vector<Result<>> outcomes(hosts.size(), ok());
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < hosts.size(); ++i) {
        threads.emplace_back([&, i] { outcomes[i] = look_at(hosts[i]); });
    }
    for (std::thread& thread : threads) thread.join();
    for (const Result<>& outcome : outcomes)
        if (!outcome) return outcome.error();
    return ok();
}

/// A word as a shell takes it.
std::string quoted(const std::string& word) {
    const auto is_plain = [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
               std::string_view("_./:=,@%+-").find(c) != std::string_view::npos;
    };
    if (!word.empty() && std::ranges::all_of(word, is_plain)) return word;
    std::string out = "'";
    for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return out + "'";
}

std::string mpirun_line(const std::vector<Host>& hosts, const std::vector<std::string>& program) {
    std::string line = "mpirun --bind-to none --host localhost:1";
    int workers = 0;
    for (const Host& host : hosts) {
        line += fmt::format(",{}:{}", host.name, host.workers);
        workers += host.workers;
    }
    line += " -n 1";
    for (const std::string& word : program) line += " " + quoted(word);
    return line + fmt::format(" : -n {} heddle worker", workers);
}

Result<> launch(const LaunchOptions& options, const std::string& list) {
    HEDDLE_TRY_ASSIGN(const std::vector<Host> hosts, parse(list));
    if (options.program.empty() && !options.check) return invalid("give a program behind --");
    if (options.mpirun) {
        print("{}\n", mpirun_line(hosts, options.program));
        return ok();
    }
    HEDDLE_TRY(look_at_all(hosts));
    if (options.check) {
        print("{}: workers of Heddle {}\n", list, heddle_version());
        return ok();
    }
    use_hosts(list);
    std::vector<char*> arguments;
    for (const std::string& word : options.program) {
        arguments.push_back(const_cast<char*>(word.c_str()));
    }
    arguments.push_back(nullptr);
    execvp(arguments[0], arguments.data());
    return failure(Errc::not_found, options.program.front(), ": ", std::strerror(errno));
}

}  // namespace

void add_launch(CLI::App& app, int& status) {
    auto options = std::make_shared<LaunchOptions>();
    CLI::App* command =
        app.add_subcommand("launch", "Run a program with the devices of other machines");
    add_shared(*command, shared::kHosts, options->list)->required();
    command->add_flag("--check", options->check, "Only ask the machines");
    command->add_flag("--mpirun", options->mpirun, "Only print the line for mpirun");
    command->add_option("program", options->program, "The program and its arguments, after --")
        ->type_name("WORD");
    command->callback(
        [options, &status] { status = report_outcome("launch", launch(*options, options->list)); });
}

}  // namespace heddle::tool
