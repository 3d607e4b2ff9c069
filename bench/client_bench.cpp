// A language model program written for ggml, beside what `heddle bench model` measures.
//
//     client_bench [SHAPE [TYPES [THREADS]]]      as in 1.1B Q4_0,F16 2
//
// The program maps its file, asks for memory for each weight, reserves, and uses graphs again, as
// llama.cpp does; once as it is, and once with all weights in the mapped file. All read the same
// prompts and words in turns, because memory may be half as fast a moment later, and the best time
// of each counts, because other programs can only make it worse. With one thread it is the
// processor's time, which they do not add to.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <sstream>
#include <thread>

#include "bench/synthetic.hpp"
#include "client_model.hpp"
#include "model/generator.hpp"

namespace heddle::bench {
namespace {

constexpr std::int64_t kBatch = 512, kWords = 128, kWordsAtOnce = 8;
constexpr double kSecondsEach = 6;  ///< for each line of the table

/// Somebody who reads: the own program or the client.
struct Reader {
    std::function<Result<std::span<const float>>(std::span<const std::int32_t>)> read;
    std::function<void()> forget;
    std::int64_t room = 0;   ///< words that still fit after those read
    double best = INFINITY;  ///< seconds
};

/// The same weights in the same graph: logits differ only by how sums are rounded.
Result<> compare(std::span<const float> a, std::span<const float> b) {
    double ab = 0, aa = 0, bb = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        ab += double{a[i]} * b[i], aa += double{a[i]} * a[i], bb += double{b[i]} * b[i];
    }
    const double likeness = ab / std::sqrt(aa * bb);
    if (a.size() == b.size() && likeness > 0.99) return ok();
    return failure(Errc::corrupt,
                   "the client computes something else: the cosine of both logits is ", likeness);
}

class ClientBench {
public:
    ClientBench(std::string shape, int threads) : shape_(std::move(shape)), threads_(threads) {}

    Result<> run(const std::string& type) {
        HEDDLE_TRY_ASSIGN(const auto file, tool::bench::SyntheticModel::make(shape_, type));
        const std::int64_t context = kBatch + kWords;
        HEDDLE_TRY_ASSIGN(const auto opened, tool::open_model(file.path()));
        HEDDLE_TRY_ASSIGN(const auto own, tool::Generator::load(opened, {.rooms = {},
                                                                         .helpers = {},
                                                                         .threads = threads_,
                                                                         .context = context,
                                                                         .batch = kBatch,
                                                                         .on_tensor = {}}));
        ClientModel::Options options{.threads = threads_, .context = context, .batch = kBatch};
        HEDDLE_TRY_ASSIGN(const auto client, ClientModel::load(file.path(), options));
        options.extras = false;
        HEDDLE_TRY_ASSIGN(const auto mapped, ClientModel::load(file.path(), options));
        readers_.clear();
        readers_.push_back(
            {[&](auto tokens) { return own->read(tokens); }, [&] { own->forget(); }});
        for (ClientModel* each : {client.get(), mapped.get()}) {
            readers_.push_back(
                {[each](auto tokens) { return each->read(tokens); }, [each] { each->forget(); }});
        }
        const std::string name = shape_ + " " + type;
        for (const std::int64_t tokens : {std::int64_t{128}, kBatch}) {
            HEDDLE_TRY(take_turns([&](Reader& reader) { return read_prompt(reader, tokens); }));
            print(name, "prompt " + std::to_string(tokens), static_cast<double>(tokens));
        }
        HEDDLE_TRY(take_turns([&](Reader& reader) { return read_words(reader); }));
        print(name, "text", 1);
        return ok();
    }

private:
    /// Seconds since some moment.
    double now() const {
        timespec time = {};
        clock_gettime(threads_ == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &time);
        return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
    }

    /// Every reader in turn, in one order and in the other, for a while.
    Result<> take_turns(const std::function<Result<double>(Reader&)>& turn) {
        for (Reader& reader : readers_) reader.best = INFINITY;
        const double begin = now();
        for (int round = 0; round < 6 || now() - begin < kSecondsEach; ++round) {
            for (std::size_t i = 0; i < readers_.size(); ++i) {
                Reader& reader = readers_[round % 2 == 0 ? i : readers_.size() - 1 - i];
                HEDDLE_TRY_ASSIGN(const double seconds, turn(reader));
                if (round > 0) reader.best = std::min(reader.best, seconds);  // 0 prepares graphs
            }
        }
        return ok();
    }

    static std::vector<std::int32_t> tokens_of(std::int64_t count) {
        std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
        for (std::size_t i = 0; i < tokens.size(); ++i) {
            tokens[i] = static_cast<std::int32_t>(3 + i * 7);
        }
        return tokens;
    }

    Result<double> read_prompt(Reader& reader, std::int64_t count) {
        const std::vector<std::int32_t> prompt = tokens_of(count);
        reader.forget();
        reader.room = kBatch + kWords - count;
        const double begin = now();
        HEDDLE_TRY_ASSIGN(const auto logits, reader.read(prompt));
        const double seconds = now() - begin;
        if (&reader == &readers_[0]) {
            expected_.assign(logits.begin(), logits.end());
        } else if (!std::isfinite(reader.best)) {  // once is enough
            HEDDLE_TRY(compare(expected_, logits));
        }
        return seconds;
    }

    /// The least seconds of a word, among some after a prompt and others.
    Result<double> read_words(Reader& reader) {
        const std::vector<std::int32_t> word = tokens_of(1);
        if (reader.room < kWordsAtOnce) HEDDLE_TRY(read_prompt(reader, kBatch));
        reader.room -= kWordsAtOnce;
        // The first two may need another graph, while threads of the reader before come to rest.
        for (int i = 0; i < 2; ++i) HEDDLE_TRY(reader.read(word));
        double best = INFINITY;
        for (std::int64_t i = 2; i < kWordsAtOnce; ++i) {
            const double begin = now();
            HEDDLE_TRY(reader.read(word));
            best = std::min(best, now() - begin);
        }
        return best;
    }

    void print(const std::string& name, const std::string& what, double tokens) const {
        const auto speed = [&](std::size_t i) { return tokens / readers_[i].best; };
        const auto ratio = [&](std::size_t i) { return speed(i) / speed(0); };
        std::printf("%-13s %-10s %7d %11.1f %8.1f %6.2f %8.1f %6.2f\n", name.c_str(), what.c_str(),
                    threads_, speed(0), speed(1), ratio(1), speed(2), ratio(2));
        std::fflush(stdout);
    }

    const std::string shape_;
    const int threads_;
    std::vector<Reader> readers_;  ///< what `heddle bench model` runs is the first
    std::vector<float> expected_;
};

Result<> run(const std::string& shape, const std::string& types, int threads) {
    std::printf("%-13s %-10s %7s %11s %8s %6s %8s %6s\n", "model", "what", "threads", "bench model",
                "client", "ratio", "mapped", "ratio");
    ClientBench bench(shape, threads);
    std::istringstream list(types);
    for (std::string type; std::getline(list, type, ',');) HEDDLE_TRY(bench.run(type));
    return ok();
}

}  // namespace
}  // namespace heddle::bench

int main(int count, char** words) {
    const int cores = static_cast<int>(std::thread::hardware_concurrency());
    const auto done = heddle::bench::run(count > 1 ? words[1] : "110M",
                                         count > 2 ? words[2] : "Q4_0,Q8_0,Q4_K_M,F16",
                                         count > 3 ? std::max(1, std::atoi(words[3])) : cores);
    if (done) return 0;
    std::fprintf(stderr, "client_bench: %s\n", done.error().message.c_str());
    return 1;
}
