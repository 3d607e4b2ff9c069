#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "bench/cluster_load.hpp"
#include "bench/cluster_place.hpp"
#include "bench/commands.hpp"
#include "bench/measure.hpp"
#include "bench/output.hpp"
#include "console.hpp"
#include "heddle/heddle.hpp"
#include "heddle/mpi.h"
#include "interrupt.hpp"
#include "model/generator.hpp"
#include "outcome.hpp"
#include "shared_options.hpp"

/// `heddle bench cluster`: devices of other ranks beside what MPI alone reaches in the same run.
namespace heddle::tool::bench {
namespace {

constexpr std::size_t kLarge = std::size_t{16} << 20, kChunk = std::size_t{1} << 20;
constexpr std::size_t kSmall = 64, kSum = std::size_t{32} << 10;

struct ClusterOptions {
    Output output;
    std::string model;
    bool quick = false;
};

/// One device of each worker, in the order of ranks.
std::vector<Device> worker_devices() {
    std::vector<Device> found;
    std::string last;
    for (const Device& device : Device::all()) {
        const std::string name = device.name();
        const std::string rank = name.substr(0, name.find(':'));
        if (!name.starts_with("MPI") || rank == name || rank == last) continue;
        found.push_back(device);
        last = rank;
    }
    return found;
}

/// Bytes that do not repeat: what has two values only would travel as bits.
std::vector<std::byte> noise(std::size_t size) {
    std::vector<std::byte> bytes(size);
    std::uint32_t state = 1;
    for (std::byte& each : bytes) {
        state = state * 1664525U + 1013904223U;
        each = static_cast<std::byte>(state >> 24);
    }
    return bytes;
}

class ClusterBench {
public:
    explicit ClusterBench(const ClusterOptions& options)
        : options_(options), workers_(worker_devices()) {}

    Result<> run() {
        if (workers_.empty()) {
            return failure(Errc::not_found,
                           "there are no workers; give --hosts localhost:2, or run under mpirun");
        }
        ping_pong_ = workers_.front().function<heddle_mpi_ping_pong_t>("heddle_mpi_ping_pong");
        options_.output.start(report_,
                              {"known graph, fence", "program-MPI1", "0.9 of a direct read"});
        for (const Device& worker : workers_) {
            if (is_interrupted()) return ok();
            HEDDLE_TRY(between_program_and(worker));
        }
        for (std::size_t i = 1; i < workers_.size() && !is_interrupted(); ++i) {
            HEDDLE_TRY(copy(workers_[i - 1], workers_[i]));
        }
        for (const std::size_t ranks : {2, 4}) {
            if (workers_.size() >= ranks && !is_interrupted()) HEDDLE_TRY(sum(ranks));
        }
        if (!is_interrupted()) HEDDLE_TRY(load_from_files());
        return options_.model.empty() || is_interrupted() ? ok() : tokens();
    }
    Report& report() { return report_; }

private:
    Effort effort() const { return {options_.quick ? 0.05 : 0.5, options_.quick ? 5 : 20}; }

    static std::string rank_of(const Device& device) {
        return device.name().substr(0, device.name().find(':'));
    }

    /// Seconds of a round trip by MPI alone; 0 where it is not MPI that carries messages.
    double mpi(const Device* from, const Device& to, std::size_t bytes) const {
        if (ping_pong_ == nullptr) return 0;
        const int rounds = (options_.quick ? 1 : 5) * (bytes >= kChunk ? 40 : 400);
        return detail::call([&] {
            return ping_pong_(from != nullptr ? from->c() : nullptr, to.c(), bytes, rounds);
        });
    }

    Result<> between_program_and(const Device& worker) {
        const std::string between = "program-" + rank_of(worker);
        std::vector<std::byte> bytes = noise(kLarge), few(kSmall);
        HEDDLE_TRY_ASSIGN(Place place, Place::make(worker, kLarge));
        HEDDLE_TRY_ASSIGN(Place small, Place::make(worker, kSmall));
        const double whole = mpi(nullptr, worker, kChunk) / 2;
        HEDDLE_TRY_ASSIGN(const Seconds set, measure(effort(), [&]() -> Result<> {
                              HEDDLE_TRY(place.set(bytes));
                              return place.get(few);  // it is there now
                          }));
        add_speed("set", between, set.best, whole);
        HEDDLE_TRY_ASSIGN(const Seconds get, measure(effort(), [&] { return place.get(bytes); }));
        add_speed("get", between, get.best, whole);
        const double round = mpi(nullptr, worker, kSmall);
        HEDDLE_TRY_ASSIGN(const Seconds read, measure(effort(), [&] { return small.get(few); }));
        add_time("get", between, kSmall, read, round, 15e-6);
        HEDDLE_TRY_ASSIGN(const Seconds fence,
                          measure(effort(), [&] { return small.set_and_wait(few); }));
        add_time("set, fence", between, kSmall, fence, round, 15e-6);
        HEDDLE_TRY_ASSIGN(const Seconds graph,
                          measure(effort(), [&] { return small.compute_and_wait(); }));
        add_time("known graph, fence", between, kSmall, graph, round, 25e-6);
        return ok();
    }

    Result<> copy(const Device& from, const Device& to) {
        HEDDLE_TRY_ASSIGN(Place source, Place::make(from, kLarge));
        HEDDLE_TRY_ASSIGN(Place target, Place::make(to, kLarge));
        HEDDLE_TRY_ASSIGN(const Seconds copy,
                          measure(effort(), [&] { return source.copy_to(target); }));
        add_speed("worker to worker", rank_of(from) + "-" + rank_of(to), copy.best,
                  mpi(&from, to, kChunk) / 2);
        return ok();
    }

    /// Several one behind the other, so that waiting for them at the end does not count.
    Result<> sum(std::size_t ranks) {
        constexpr int kSums = 32;
        std::vector<Place> places;
        std::vector<ggml_backend_t> streams;
        std::vector<ggml_tensor*> tensors;
        double exchange = 0;
        for (std::size_t i = 0; i < ranks; ++i) {
            HEDDLE_TRY_ASSIGN(Place place, Place::make(workers_[i], kSum));
            places.push_back(std::move(place));
            streams.push_back(places.back().stream());
            tensors.push_back(places.back().tensor());
            if (i > 0) exchange = std::max(exchange, mpi(&workers_[i - 1], workers_[i], kSum) / 2);
        }
        const Device& first = workers_.front();
        const auto init = first.function<ggml_backend_comm_init_t>("ggml_backend_comm_init");
        const auto end = first.function<ggml_backend_comm_free_t>("ggml_backend_comm_free");
        const auto add_up = first.function<ggml_backend_comm_allreduce_tensor_t>(
            "ggml_backend_comm_allreduce_tensor");
        if (init == nullptr || end == nullptr || add_up == nullptr) {
            return failure(Errc::unsupported, first.name(), ": its backend has no sums");
        }
        void* const sums = init(streams.data(), streams.size());
        if (sums == nullptr) return detail::last_failure(Errc::device, "no sums over workers");
        auto seconds = measure(effort(), [&]() -> Result<> {
            for (int i = 0; i < kSums; ++i) {
                if (!detail::call([&] { return add_up(sums, tensors.data()); })) {
                    return detail::last_failure(Errc::device, "the workers do not add up");
                }
            }
            for (Place& place : places) HEDDLE_TRY(place.wait());
            return ok();
        });
        end(sums);
        if (!seconds) return std::move(seconds).error();
        seconds->best /= kSums, seconds->median /= kSums;
        const double goal = 1.2 * exchange;
        report_.add({"sum",
                     count_of(ranks),
                     std::int64_t{kSum},
                     seconds->best,
                     seconds->median,
                     exchange,
                     {},
                     {},
                     "1.2 x MPI",
                     verdict(exchange, seconds->best <= goal)});
        return ok();
    }

    /// Bytes that the first so many workers were sent.
    std::size_t sent(std::size_t workers) const {
        const auto ask = workers_.front().function<heddle_mpi_sent_t>("heddle_mpi_sent");
        std::size_t bytes = 0;
        for (std::size_t i = 0; i < workers; ++i) bytes += ask(workers_[i].c());
        return bytes;
    }

    Result<> load_from_files() {
        const std::size_t bytes = std::size_t{options_.quick ? 16U : 256U} << 20;
        HEDDLE_TRY_ASSIGN(const LoadSpeed load, measure_load(workers_, bytes));
        const double ours = static_cast<double>(load.bytes) / load.seconds;
        Report::Value direct;
        if (load.direct_seconds > 0) direct = static_cast<double>(bytes) / load.direct_seconds;
        report_.add({"load from files",
                     count_of(workers_.size()),
                     static_cast<std::int64_t>(load.bytes),
                     load.seconds,
                     {},
                     {},
                     ours,
                     direct,
                     "0.9 of a direct read",
                     verdict(load.direct_seconds,
                             ours * load.direct_seconds >= 0.9 * static_cast<double>(bytes))});
        report_.add_note(
            "load from files: beside it is a direct read of the file by this program.");
        return ok();
    }

    void add_load(std::size_t workers, std::size_t bytes, double seconds) {
        report_.add({"load: bytes sent",
                     count_of(workers),
                     static_cast<std::int64_t>(bytes),
                     seconds,
                     {},
                     {},
                     {},
                     {},
                     "< 1 MiB",
                     verdict(1, bytes < kChunk)});
    }

    static std::string count_of(std::size_t workers) {
        return fmt::format("{} worker{}", workers, workers == 1 ? "" : "s");
    }

    /// Best and median seconds of a token of the model, with layers on so many workers.
    Result<Seconds> token(std::size_t workers) {
        Generator::Options options;
        for (std::size_t i = 0; i < workers; ++i) options.rooms.push_back({workers_[i]});
        options.context = 256;
        const std::size_t before = sent(workers);
        const double begin_load = now();
        HEDDLE_TRY_ASSIGN(const SharedModelFile file, open_model(options_.model));
        HEDDLE_TRY_ASSIGN(const auto generator, Generator::load(file, options));
        if (workers > 0) add_load(workers, sent(workers) - before, now() - begin_load);
        const Token begin = std::max<Token>(generator->tokenizer().vocabulary().bos, 0);
        HEDDLE_TRY(generator->read(std::vector<Token>(8, begin)));
        return measure(effort(), [&]() -> Result<> {
            if (generator->position() > 200) generator->forget(8);
            HEDDLE_TRY(generator->read(std::vector<Token>(1, begin)));
            return ok();
        });
    }

    Result<> tokens() {
        HEDDLE_TRY_ASSIGN(const Seconds local, token(0));
        for (const std::size_t workers : {1, 2}) {
            if (workers > workers_.size() || is_interrupted()) break;
            HEDDLE_TRY_ASSIGN(const Seconds remote, token(workers));
            const double more = workers == 1 ? 150e-6 : 250e-6;
            report_.add({"token",
                         count_of(workers),
                         {},
                         remote.best,
                         remote.median,
                         local.best,
                         {},
                         {},
                         fmt::format("local + {:.0f} us", more * 1e6),
                         verdict(1, remote.best <= local.best + more)});
        }
        report_.add_note("token: beside it is the time of one that is computed here.");
        return ok();
    }

    static std::string verdict(double mpi, bool holds) {
        return mpi <= 0 ? "" : holds ? "yes" : "no";
    }

    void add_speed(const char* figure, const std::string& between, double seconds, double chunk) {
        const double ours = static_cast<double>(kLarge) / seconds;
        Report::Value alone;
        if (chunk > 0) alone = static_cast<double>(kChunk) / chunk;
        report_.add(
            {figure,
             between,
             std::int64_t{kLarge},
             seconds,
             {},
             {},
             ours,
             alone,
             "0.85 of MPI",
             verdict(chunk, chunk > 0 && ours >= 0.85 * static_cast<double>(kChunk) / chunk)});
    }

    void add_time(const char* figure, const std::string& between, std::size_t bytes,
                  const Seconds& seconds, double mpi, double more) {
        Report::Value alone;
        if (mpi > 0) alone = mpi;
        report_.add({figure,
                     between,
                     static_cast<std::int64_t>(bytes),
                     seconds.best,
                     seconds.median,
                     alone,
                     {},
                     {},
                     fmt::format("MPI + {:.0f} us", more * 1e6),
                     verdict(mpi, seconds.best <= mpi + more)});
    }

    const ClusterOptions& options_;
    const std::vector<Device> workers_;
    heddle_mpi_ping_pong_t ping_pong_ = nullptr;
    Report report_{"cluster",
                   {{"figure", "figure", 0, 1, true},
                    {"between", "between", 0, 1, true},
                    {"bytes", "bytes", 0, 1, false, true},
                    {"seconds", "us", 1, 1e6},
                    {"median_seconds", "median us", 1, 1e6},
                    {"mpi_seconds", "MPI us", 1, 1e6},
                    {"bytes_per_second", "GB/s", 2, 1e-9},
                    {"mpi_bytes_per_second", "MPI GB/s", 2, 1e-9},
                    {"goal", "goal", 0, 1, true},
                    {"holds", "holds", 0, 1, true}}};
};

Result<> run(const ClusterOptions& options) {
    HEDDLE_TRY(options.output.check());
    ClusterBench bench(options);
    HEDDLE_TRY(bench.run());
    return options.output.show(bench.report());
}

}  // namespace

void add_cluster(CLI::App& bench, int& status) {
    auto options = std::make_shared<ClusterOptions>();
    CLI::App* command = bench.add_subcommand(
        "cluster", "Devices of other machines, beside what MPI alone reaches in the same run");
    add_shared_flag(*command, shared::kQuick, options->quick);
    command->add_option("--model", options->model, "Also the time of a token of this GGUF file")
        ->type_name("FILE")
        ->check(CLI::ExistingFile);
    command->footer(
        "Machines are named by --hosts, before the command: heddle --hosts n1,n2 bench cluster.\n"
        "MPI: a ping-pong of the same two processes, of the same size or in messages of 1 MiB; "
        "for\n"
        "a sum, half a round trip of its size. Times are the best of many, and their median.");
    options->output.add_options(*command, false);
    command->callback(
        [options, &status] { status = report_outcome("bench cluster", run(*options)); });
}

}  // namespace heddle::tool::bench
