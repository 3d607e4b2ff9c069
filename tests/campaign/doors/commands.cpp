// Random command lines. The program ends by itself with status 0, 1 or 2, says why if it is not 0,
// leaves nothing behind that it was not asked for, and JSON is JSON.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gguf.h"
#include "tests/campaign/doors/command_words.hpp"
#include "tests/campaign/doors/gguf_draft.hpp"
#include "tests/campaign/doors/misuse.hpp"
#include "tests/campaign/doors/program_run.hpp"
#include "tests/campaign/doors/small_model.hpp"
#include "tests/campaign/settings.hpp"

namespace heddle::campaign {
namespace {

namespace fs = std::filesystem;

/// The folder of a case, empty at first.
class Folder {
public:
    Folder() : path_(settings().scratch + "/commands") {
        fs::remove_all(path_);
        fs::create_directories(path_);
    }
    ~Folder() {
        std::error_code ignored;
        fs::remove_all(path_, ignored);
        fs::remove(path_ + ".out", ignored);
        fs::remove(path_ + ".err", ignored);
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;

    const std::string& path() const { return path_; }
    void write(const std::string& name, std::span<const std::byte> bytes) const {
        std::ofstream out(path_ + "/" + name, std::ios::binary);
        out.write(reinterpret_cast<const char*>(bytes.data()),
                  static_cast<std::streamsize>(bytes.size()));
    }
    /// Files that were neither there before nor asked for.
    std::string foreign_file() const {
        for (const auto& entry : fs::directory_iterator(path_)) {
            const std::string name = entry.path().filename().string();
            if (name != "in.gguf" && !name.starts_with("new-")) return name;
        }
        return {};
    }

private:
    std::string path_;
};

const std::vector<CommandWords>& commands() {
    static const std::vector<CommandWords> all = [] {
        const Folder folder;
        return command_words(
            run_program(settings().program, {{"completion", "fish"}, folder.path()}).out);
    }();
    return all;
}

/// Measuring and comparing take minutes, if they are let.
bool is_long(const CommandWords& command) {
    return !command.words.empty() && (command.words[0] == "bench" || command.words[0] == "verify");
}

GgufDraft draw_model(Choices& choices, Trace& trace) {
    GgufDraft file = choices.one_in(4) ? draw_gguf(choices) : small_model();
    if (choices.below(4) != 0) damage(file, choices, trace);
    return file;
}

std::string draw_value(const CommandOption& option, Choices& choices) {
    if (!option.choices.empty() && !choices.one_in(8)) {
        return option.choices[choices.below(static_cast<std::uint32_t>(option.choices.size()))];
    }
    if (option.takes_file) {
        return choices.pick({"new-a", "new-b", "in.gguf", "nowhere/file", "/dev/null", ".", ""});
    }
    return choices.pick({"1",          "2",
                         "0",          "-1",
                         "CPU",        "sim",
                         "4",          "Q8_0",
                         "a",          "",
                         "nan",        "1e99",
                         "0.5",        "1,2",
                         "CPU,sim",    "sim:mem=1M",
                         "CPU=1M",     "F32",
                         "2147483648", "18446744073709551616",
                         "sim:mem=-1", "Once upon a time",
                         "\xff\xfe",   "--help",
                         "99999999"});
}

std::vector<std::string> draw_arguments(const CommandWords& command, Choices& choices) {
    std::vector<std::string> words = command.words;
    if (command.takes_file && !choices.one_in(24)) words.emplace_back("in.gguf");
    if (!words.empty() && words[0] == "quantize") {
        words.emplace_back("new-model");
        words.emplace_back(choices.pick({"Q8_0", "Q4_0", "Q4_K_M", "F16", "IQ2_XXS", "x", "F32"}));
    }
    // A model answers with a few tokens, not with as many as it likes.
    if (!words.empty() && words[0] == "run") {
        for (const char* word : {"-p", "a", "-n", "2"}) words.emplace_back(word);
    }
    const auto options = static_cast<std::uint32_t>(command.options.size());
    for (std::uint32_t n = choices.below(4); n > 0 && options > 0; --n) {
        const CommandOption& option = command.options[choices.below(options)];
        words.push_back(option.name);
        if (option.takes_value) words.push_back(draw_value(option, choices));
    }
    if (choices.one_in(16)) words.push_back(draw_value({}, choices));
    return words;
}

void draw_limits(ProgramRun& run, Choices& choices, Trace& trace) {
    if (choices.one_in(8)) {
        run.memory = static_cast<std::size_t>(choices.between(20, 600)) << 20;
        trace.line("address space: ", run.memory >> 20, " MiB");
    }
    if (choices.one_in(8)) {
        run.file_size = choices.pick<std::size_t>({1 << 16, 1 << 12});  // sentences fit
        trace.line("files: ", run.file_size, " bytes");
    }
    if (choices.one_in(16)) {
        run.processes = 1;
        trace.line("processes: 1");
    }
    run.out = choices.one_in(8) ? ProgramRun::Out::full : ProgramRun::Out::file;
    if (choices.one_in(8)) run.out = ProgramRun::Out::closed;
    if (run.out != ProgramRun::Out::file) trace.line("output cannot be written");
}

bool has(const std::vector<std::string>& words, std::string_view word) {
    return std::ranges::find(words, word) != words.end();
}

/// Whether memory was too little for what is not ours: the system's loader, which ends the program
/// before it begins, or OpenBLAS, which raises SIGINT when it cannot start its threads.
bool is_ended_by_others(const ProgramOutcome& outcome) {
    const auto says = [&](std::string_view words) {
        return outcome.err.find(words) != std::string::npos;
    };
    return (outcome.status == 127 && says("error while loading shared libraries")) ||
           (outcome.status == 128 + SIGINT && says("OpenBLAS blas_thread_init"));
}

/// What is wrong with the end of the program, if anything.
std::string judge(const ProgramRun& run, const ProgramOutcome& outcome) {
    if (outcome.hung) return "the program does not end, even when it is interrupted";
    if (outcome.was_stopped || is_ended_by_others(outcome)) return {};
    if (outcome.status > 128) {
        return std::string("the program is ended by SIG") + sigabbrev_np(outcome.status - 128);
    }
    if (outcome.status < 0 || outcome.status > 2) return "the program ends with another status";
    if (outcome.status != 0 && outcome.err.empty()) return "the program fails without a word";
    const bool explains =
        has(run.arguments, "--help") || has(run.arguments, "-h") || has(run.arguments, "--version");
    if (outcome.status == 0 && run.out == ProgramRun::Out::file && !explains &&
        has(run.arguments, "--json") && !nlohmann::json::accept(outcome.out)) {
        return "JSON that is none: " + outcome.out.substr(0, 400);
    }
    if (outcome.status == 0 && run.out != ProgramRun::Out::file && explains) {
        return "text was lost, and the status is 0";
    }
    return {};
}

/// A model that was written is whole.
std::string judge_model(const Folder& folder) {
    const std::string path = folder.path() + "/new-model";
    if (!fs::exists(path)) return {};
    ggml_context* tensors = nullptr;
    gguf_context* file = gguf_init_from_file(path.c_str(), {false, &tensors});
    const bool is_whole = file != nullptr;
    gguf_free(file);
    ggml_free(tensors);
    return is_whole ? std::string() : "a model was written, but not whole";
}

}  // namespace

std::string run_commands(Choices& choices, Trace& trace) {
    prepare_for_misuse();
    if (commands().empty()) return settings().program + " tells of no commands";
    const auto count = static_cast<std::uint32_t>(commands().size());
    const CommandWords* command = &commands()[choices.below(count)];
    // What takes long is tried less often.
    while (is_long(*command) && !choices.one_in(16)) command = &commands()[choices.below(count)];

    const Folder folder;
    folder.write("in.gguf", draw_model(choices, trace).bytes);
    ProgramRun run{draw_arguments(*command, choices), folder.path()};
    draw_limits(run, choices, trace);
    if (is_long(*command)) run.seconds = 1;
    if (trace.is_wanted()) {
        std::string line = "heddle";
        for (const std::string& word : run.arguments) line += " '" + word + "'";
        trace.line(line);
    }
    const ProgramOutcome outcome = run_program(settings().program, run);
    trace.line("status ", outcome.status, ": ", outcome.err);
    if (outcome.was_stopped && !is_long(*command)) return "the program does not end";
    std::string wrong = judge(run, outcome);
    if (wrong.empty()) wrong = judge_model(folder);
    if (wrong.empty() && !folder.foreign_file().empty()) {
        wrong = "a file is left behind: " + folder.foreign_file();
    }
    return wrong;
}

}  // namespace heddle::campaign
