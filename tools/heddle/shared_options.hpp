#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

/// Options that several commands have. A name means the same everywhere: its letter, what it takes
/// and its sentence stand here once, and tests/docs/help_coverage.py compares what `--help` shows.
namespace heddle::tool {

struct SharedOption {
    std::string_view names;     ///< "-t,--threads"
    std::string_view argument;  ///< its kind; empty for flags
    std::string_view sentence;

    /// What the help says: the sentence, and what only the command at hand has to add.
    std::string text(std::string_view addition) const {
        return std::string(sentence).append(addition);
    }
};

namespace shared {

inline constexpr SharedOption kAgainst{"--against", "DEVICE", "Device to compare it with"},
    kBatch{"--batch", "INT", "Tokens of a prompt to read at a time"},
    kBudget{"--budget", "DEVICE=SIZE", "Most memory to use on a device, such as CUDA0=2G"},
    kDevice{"-d,--device", "DEVICE", "Devices to use, such as CUDA0,CUDA1 or CPU"},
    kHosts{"--hosts", "HOSTS", "Other machines to use, such as n1,n2:2"},
    kHtml{"--html", "FILE", "Write an HTML page"},
    kIsa{"--isa", "NAME", "Instruction set of the processor's kernels, such as AVX2"},
    kJoin{"--join", "", "Cut every layer over the devices, which then compute it together"},
    kJson{"--json", "", "Print one JSON object instead of text"},
    kMapped{"--mapped", "", "Leave weights in the mapped file: starts sooner, runs slower"},
    kNoFusion{"--no-fusion", "", "Compute each node by itself, without fusion"},
    kOn{"--on", "DEVICE", "Device to compare"},
    kPrompt{"-p,--prompt", "TEXT", "Prompt for the model"},
    kQuick{"--quick", "", "Take seconds instead of minutes: smaller and fewer runs"},
    kSeed{"--seed", "UINT", "Seed of random numbers"},
    kShape{"--shape", "SHAPE", "Shape of a model without a file"},
    kThreads{"-t,--threads", "INT", "Threads of the processor"},
    kTokens{"-n,--tokens", "INT", "Tokens to generate"},
    kType{"--type", "TYPE", "Type of the weights, such as Q4_0 or F16"},
    kVerbose{"-v,--verbose", "", "Show more"};

}  // namespace shared

inline constexpr int kMostThreads = 4096;

/// For commands that compare numbers of threads.
inline constexpr std::string_view kSeveralThreads =
    "; several, such as 1,2,4, are tried one after the other";

/// `addition` is what help says behind the sentence; `place` a name by which the value may also be
/// given without a dash. Values in lists are for the caller to allow.
template <class Value>
CLI::Option* add_shared(CLI::App& command, const SharedOption& option, Value& value,
                        std::string_view addition = {}, std::string_view place = {}) {
    std::string names(option.names);
    if (!place.empty()) names.append(",").append(place);
    return command.add_option(names, value, option.text(addition))
        ->type_name(std::string(option.argument))
        ->allow_extra_args(false);
}

inline CLI::Option* add_shared_flag(CLI::App& command, const SharedOption& option, bool& value,
                                    std::string_view addition = {}) {
    return command.add_flag(std::string(option.names), value, option.text(addition));
}

}  // namespace heddle::tool
