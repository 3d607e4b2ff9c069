#include "runner.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <new>

#include "case_file.hpp"
#include "shrink.hpp"

namespace heddle::campaign {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kTurn{20};  // at a door, then the next one
constexpr int kMostAttempts = 600;         // to make a finding smaller
constexpr std::chrono::seconds kMostShrinking{40};

volatile std::sig_atomic_t interrupted = 0;

/// Makes the file of a finding; false if its cause is known.
bool claim(const std::filesystem::path& path) {
    const int file = open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
    if (file >= 0) close(file);
    return file >= 0;
}

void write(const std::filesystem::path& path, const std::string& text) {
    std::ofstream(path, std::ios::trunc) << text;
}

/// One process' share of a plan.
class Share {
public:
    Share(const Plan& plan, std::span<Tally> tallies) : plan_(plan), tallies_(tallies) {
        for (std::size_t door = 0; door < plan.doors.size(); ++door) {
            turns_.insert(turns_.end(), plan.doors[door]->turns, door);
        }
    }

    /// Job `number` of all: each begins elsewhere in the round.
    void run(int number) {
        const std::size_t first =
            static_cast<std::size_t>(number) * turns_.size() / static_cast<std::size_t>(plan_.jobs);
        for (std::size_t turn = first; has_work(); ++turn) take_turn(turns_[turn % turns_.size()]);
    }

private:
    bool has_work() const {
        if (Clock::now() >= plan_.end) return false;
        for (std::size_t door = 0; door < tallies_.size(); ++door) {
            if (tallies_[door].next < plan_.cases[door]) return true;
        }
        return false;
    }

    void take_turn(std::size_t number) {
        const Door& door = *plan_.doors[number];
        Tally& tally = tallies_[number];
        const Slice slice{plan_.first_seed, plan_.cases[number],
                          std::min(plan_.end, Clock::now() + kTurn)};
        while (Clock::now() < slice.end && tally.next < slice.cases) {
            auto failure = worker_.run(door, slice, tally);
            if (!failure) break;
            record(door, tally, *failure);
        }
    }

    void record(const Door& door, Tally& tally, const Failure& failure) {
        const std::filesystem::path path = plan_.out / file_name(door, failure);
        if (!claim(path)) return;
        tally.findings.fetch_add(1);
        write(path, to_text(door, failure));
        auto smaller = shrink(worker_, door, failure, kMostAttempts, kMostShrinking);
        if (smaller) {
            write(path, to_text(door, *smaller));
            return;
        }
        Failure alone = failure;
        alone.trace =
            "It does not fail when it is run alone: it needs what ran before it, or luck.\n";
        write(path, to_text(door, alone));
    }

    const Plan& plan_;
    std::span<Tally> tallies_;
    std::vector<std::size_t> turns_;  ///< numbers of doors
    Worker worker_;
};

}  // namespace

std::span<Tally> make_tallies(std::size_t count) {
    void* memory = mmap(nullptr, count * sizeof(Tally), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) std::abort();  // nothing can be counted without it
    auto* tallies = static_cast<Tally*>(memory);
    for (std::size_t i = 0; i < count; ++i) new (tallies + i) Tally;
    return {tallies, count};
}

void run(const Plan& plan, std::span<Tally> tallies, void (*tick)(const Plan&, std::span<Tally>)) {
    std::vector<pid_t> processes;
    for (int job = 0; job < plan.jobs; ++job) {
        const pid_t process = fork();
        if (process == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            Share(plan, tallies).run(job);
            _exit(0);
        }
        if (process > 0) processes.push_back(process);
    }
    std::signal(SIGINT, [](int) { interrupted = 1; });
    std::signal(SIGTERM, [](int) { interrupted = 1; });
    for (std::size_t left = processes.size(); left > 0;) {
        usleep(200'000);
        tick(plan, tallies);
        if (interrupted != 0) {
            for (const pid_t process : processes) kill(process, SIGKILL);
        }
        for (pid_t& process : processes) {
            if (process == 0 || waitpid(process, nullptr, WNOHANG) != process) continue;
            process = 0, --left;
        }
        std::erase(processes, 0);
    }
}

}  // namespace heddle::campaign
