#include "verify_worker.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>

#include "console.hpp"
#include "heddle/heddle.h"

namespace heddle::tool {
namespace {

using nlohmann::json;

constexpr Child::Seconds kOpeningLimit{60};   // loads plug-ins and starts a driver
constexpr Child::Seconds kCopyingLimit{600};  // moves the weights of a model
constexpr std::size_t kMostDeaths = 3;        // of an op; each costs a start, or the time of a hang

// ---- reports -----------------------------------------------------------------------------------
//
// One JSON object in a line: {"phase": ...}, {"group": ..., "runs": ...}, {"run": ...},
// {"outcome": ...}, {"error": ...}.

void send(const json& message) {
    report_line(message.dump(-1, ' ', false, json::error_handler_t::replace));
}

/// As text, because JSON has no infinities.
std::string number_text(double number) { return fmt::format("{}", number); }
double number_of(const std::string& text) { return std::strtod(text.c_str(), nullptr); }

json to_json(const Outcome& outcome) {
    return {{"outcome", static_cast<int>(outcome.kind)},
            {"error_of", number_text(outcome.error)},
            {"limit", number_text(outcome.limit)},
            {"what", outcome.what},
            {"computed", outcome.is_computed}};
}

Outcome outcome_of(const json& message) {
    return {.kind = static_cast<Outcome::Kind>(std::clamp(message.at("outcome").get<int>(), 0, 2)),
            .error = number_of(message.at("error_of")),
            .limit = number_of(message.at("limit")),
            .what = message.at("what"),
            .is_computed = message.at("computed")};
}

/// How a child ended that did not say that it was done.
Death death_of(Child& child, std::string during, Child::Seconds limit) {
    const bool was_late = child.is_late();
    std::string how = child.end();
    if (was_late) how = fmt::format("no answer within {} s", limit.count());
    return {std::move(during), std::move(how), child.last_words()};
}

std::string sentence_of(const Death& death) {
    const std::string words = death.last_word();
    return death.run + ": ended with " + death.how + (words.empty() ? "" : ": " + words);
}

// ---- the side that watches ---------------------------------------------------------------------

/// The runs of a device, over the lives of several workers.
class WatchedRun {
public:
    WatchedRun(const CaseOptions& options, const std::string& device, Child::Seconds limit,
               const OnGroup& on_group)
        : options_(options), device_(device), limit_(limit), on_group_(on_group) {}

    Result<DeviceReport> finish() {
        report_.device = device_;
        report_.is_isolated = true;
        while (phase_ != Phase::done) {
            HEDDLE_TRY_ASSIGN(Child child,
                              Child::start(WorkerJob{device_, next_}.words(), Child::Output::kept));
            phase_ = Phase::opening;
            watch(child);
        }
        return std::move(report_);
    }

private:
    enum class Phase { opening, between, running, closing, done };

    /// Until the worker is done or dead.
    void watch(Child& child) {
        while (const auto line = child.next_line(current_limit())) {
            try {
                take(json::parse(*line));
            } catch (const json::exception&) {
                continue;  // no word of ours: a plug-in has written where it should not
            }
            if (phase_ == Phase::done) return;
        }
        bury(child);
    }

    std::optional<Child::Seconds> current_limit() const {
        switch (phase_) {
            case Phase::opening:
                return std::max(limit_, kOpeningLimit);
            case Phase::running:
            case Phase::closing:
                return limit_;
            default:
                return {};  // cases are being made, which is not the device's time
        }
    }

    void take(const json& message) {
        if (message.contains("phase")) {
            const std::string phase = message["phase"];
            if (phase == "ready") report_.device = message.at("device");
            phase_ = phase == "ready"     ? Phase::between
                     : phase == "closing" ? Phase::closing
                                          : Phase::done;
        } else if (message.contains("group")) {
            begin_group(message["group"], message.at("runs"));
        } else if (message.contains("run")) {
            run_ = message["run"];
            phase_ = Phase::running;
        } else if (message.contains("outcome")) {
            tally().add(outcome_of(message), run_);
            ++next_.run;
            phase_ = Phase::between;
        } else if (message.contains("error")) {
            report_.trouble = message["error"];
            phase_ = Phase::done;
        }
    }

    void begin_group(const std::string& name, std::size_t runs) {
        const bool is_new = name != next_.group || next_.run == Position::kBehindGroup;
        if (is_new) next_ = {name, 0};
        runs_ = runs;
        tally().is_named = options_.names(name);
        if (is_new && on_group_) on_group_(name);
    }

    /// A death in a case is that of the case. One between cases (a thread of the plug-in may be
    /// late) is the device's; so is one while it is opened or closed, which ends the work on it.
    void bury(Child& child) {
        if (phase_ == Phase::running) {
            tally().deaths.push_back(death_of(child, run_, limit_));
            ++next_.run;
            if (tally().deaths.size() < kMostDeaths) return;
            tally().left_out = runs_ - std::min(runs_, next_.run);
            next_.run = Position::kBehindGroup;
            return;
        }
        const std::string during = phase_ == Phase::opening   ? "opening the device"
                                   : phase_ == Phase::closing ? "closing the device"
                                   : run_.empty()             ? "before the first case"
                                                              : "after " + run_;
        const bool goes_on = phase_ == Phase::between && ++deaths_between_ < kMostDeaths;
        const auto limit = phase_ == Phase::opening ? std::max(limit_, kOpeningLimit) : limit_;
        report_.trouble = sentence_of(death_of(child, during, limit));
        if (!goes_on) phase_ = Phase::done;
    }

    Tally& tally() { return report_.tallies[next_.group]; }

    const CaseOptions& options_;
    const std::string device_;
    const Child::Seconds limit_;
    const OnGroup& on_group_;
    DeviceReport report_;
    Position next_;         ///< of the run that is going on, or will be next
    std::size_t runs_ = 0;  ///< of its group
    std::string run_;       ///< what it is, or what the last one was
    std::size_t deaths_between_ = 0;
    Phase phase_ = Phase::opening;
};

// ---- the side that works -----------------------------------------------------------------------

/// What plug-ins say before they die goes to the errors that are kept, without a backtrace: the
/// last line is to be the sentence.
void speak_up() {
    ggml_set_abort_callback([](const char* sentence) { fmt::print(stderr, "{}\n", sentence); });
    ggml_log_set(
        [](ggml_log_level level, const char* text, void*) {
            if (level >= GGML_LOG_LEVEL_WARN) fmt::print(stderr, "{}", text);
        },
        nullptr);
}

class SendingObserver : public RunObserver {
public:
    void begin_group(const std::string& name, std::size_t runs) override {
        send({{"group", name}, {"runs", runs}});
    }
    void begin_run(const std::string& what) override {
        begin_words();
        send({{"run", what}});
    }
    void end_run(const Outcome& outcome) override { send(to_json(outcome)); }
};

Result<> serve(const CaseOptions& options, const WorkerJob& job) {
    HEDDLE_TRY_ASSIGN(const Target target, Target::open(job.device));
    send({{"phase", "ready"}, {"device", target.name()}});
    SendingObserver observer;
    HEDDLE_TRY(run_cases(options, target, job.first, observer));
    begin_words();
    send({{"phase", "closing"}});
    return ok();
}

}  // namespace

std::vector<std::string> WorkerJob::words() const {
    std::vector<std::string> words{"--worker=" + device};
    if (first.group.empty()) return words;
    words.push_back("--worker-group=" + first.group);
    words.push_back("--worker-run=" + std::to_string(first.run));
    return words;
}

void WorkerJob::add_options(CLI::App& command) {
    command.add_option("--worker", device)->group("");
    command.add_option("--worker-group", first.group)->group("");
    command.add_option("--worker-run", first.run)->group("");
}

Result<DeviceReport> verify_in_worker(const CaseOptions& options, const std::string& device,
                                      Child::Seconds limit, const OnGroup& on_group) {
    return WatchedRun(options, device, limit, on_group).finish();
}

void serve_cases(const CaseOptions& options, const WorkerJob& job) {
    speak_up();
    const auto served = serve(options, job);
    send(served ? json{{"phase", "done"}} : json{{"error", served.error().message}});
    std::_Exit(EXIT_SUCCESS);
}

Result<bool> verify_model_in_worker(const ModelCheck& check, Child::Seconds limit) {
    HEDDLE_TRY_ASSIGN(Child child,
                      Child::start(WorkerJob{check.on, {}}.words(), Child::Output::shared));
    std::optional<Child::Seconds> current;  // none while the file is read
    std::string step = "reading the model";
    while (const auto line = child.next_line(current)) {
        const json message = json::parse(*line, nullptr, false);
        if (!message.is_object()) continue;
        if (message.contains("error")) {
            return failure(Errc::device, message["error"].get<std::string>());
        }
        if (message.contains("passed")) return message["passed"].get<bool>();
        step = message.value("step", "");
        if (!current) current = std::max(limit, kCopyingLimit);
        if (step.empty()) current = limit;
    }
    const Death death = death_of(child, step, current.value_or(limit));
    if (check.json) {
        const json all{
            {"model", check.model},
            {"on", check.on},
            {"against", check.against},
            {"passed", false},
            {"death", {{"case", death.run}, {"ended_with", death.how}, {"words", death.words}}}};
        print("{}\n", all.dump(2, ' ', false, json::error_handler_t::replace));
    }
    return failure(Errc::device, sentence_of(death));
}

void serve_model(ModelCheck check) {
    speak_up();
    check.on_step = [](const std::string& step) {
        begin_words();
        send({{"step", step}});
    };
    const auto passed = verify_model(check);
    std::fflush(stdout);
    send(passed ? json{{"passed", *passed}} : json{{"error", passed.error().message}});
    std::_Exit(EXIT_SUCCESS);
}

}  // namespace heddle::tool
