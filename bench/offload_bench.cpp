// A language model program written for ggml, in the manner of llama-bench: tokens per second with
// some layers on an accelerator and the others on the CPU.
//
//     offload_bench [DEVICE [SHAPE [TYPES [LAYERS [THREADS]]]]]   as in CUDA0 7B Q4_0,F16 99,17 16
//
// LAYERS is how many, from the last one back, are the accelerator's; the output counts as the last.
// The program maps its file, asks for memory for each weight and reserves, as llama.cpp does. The
// file lies in the folder for temporary files meanwhile: pages of a disk's file may be larger than
// those of others. Prompts are read 512 tokens at a time. Text comes after 512 tokens, once with a
// graph that is used again while it fits, once with one that is built and allocated for each token.
// Medians; the logits come back to the host every time.

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <sstream>
#include <thread>

#include "bench/synthetic.hpp"
#include "client_model.hpp"
#include "heddle/heddle.h"

namespace heddle::bench {
namespace {

constexpr std::int64_t kBatch = 512, kLongPrompt = 2048, kWords = 64;
constexpr int kRounds = 5;

double now() {
    using namespace std::chrono;
    return duration<double>(steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
    std::ranges::sort(values);
    return values[values.size() / 2];
}

Result<> read_prompt(ClientModel& model, std::int64_t count) {
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(kBatch));
    for (std::size_t i = 0; i < tokens.size(); ++i) {
        tokens[i] = static_cast<std::int32_t>(3 + i * 7);
    }
    model.forget();
    for (std::int64_t done = 0; done < count; done += kBatch) HEDDLE_TRY(model.read(tokens));
    return ok();
}

/// Tokens per second.
Result<double> prompt_speed(ClientModel& model, std::int64_t count) {
    std::vector<double> seconds;
    for (int round = 0; round <= kRounds; ++round) {
        const double begin = now();
        HEDDLE_TRY(read_prompt(model, count));
        if (round > 0) seconds.push_back(now() - begin);  // the first finds nothing prepared
    }
    return static_cast<double>(count) / median(seconds);
}

Result<double> text_speed(ClientModel& model) {
    HEDDLE_TRY(read_prompt(model, kBatch));
    std::vector<double> seconds;
    const std::int32_t word = 5;
    for (std::int64_t i = 0; i < kWords; ++i) {
        const double begin = now();
        HEDDLE_TRY(model.read({&word, 1}));
        if (i >= 4) seconds.push_back(now() - begin);  // those before may need another graph
    }
    return 1 / median(seconds);
}

struct Choice {
    ggml_backend_dev_t device;
    std::string shape;
    int threads;
};

Result<> measure(const Choice& choice, const std::string& path, const std::string& type,
                 std::int64_t layers) {
    ClientModel::Options options{.threads = choice.threads,
                                 .context = kLongPrompt + kWords,
                                 .batch = kBatch,
                                 .accelerator = layers > 0 ? choice.device : nullptr,
                                 .accelerated = std::max<std::int64_t>(layers - 1, 0)};
    HEDDLE_TRY_ASSIGN(auto model, ClientModel::load(path, options));
    HEDDLE_TRY_ASSIGN(const double prompt, prompt_speed(*model, kBatch));
    HEDDLE_TRY_ASSIGN(const double longer, prompt_speed(*model, kLongPrompt));
    HEDDLE_TRY_ASSIGN(const double reused, text_speed(*model));
    model.reset();
    options.rebuilds = true;
    HEDDLE_TRY_ASSIGN(model, ClientModel::load(path, options));
    HEDDLE_TRY_ASSIGN(const double rebuilt, text_speed(*model));
    std::printf("%-13s %6d %7d %11.0f %11.0f %8.1f %8.1f\n", (choice.shape + " " + type).c_str(),
                static_cast<int>(layers), choice.threads, prompt, longer, reused, rebuilt);
    std::fflush(stdout);
    return ok();
}

/// A model in a file with a name, for as long as this lives.
class ModelOnDisk {
public:
    static Result<std::unique_ptr<ModelOnDisk>> make(const std::string& shape,
                                                     const std::string& type) {
        HEDDLE_TRY_ASSIGN(const auto made, tool::bench::SyntheticModel::make(shape, type));
        std::unique_ptr<ModelOnDisk> file(new ModelOnDisk);
        std::error_code error;
        file->path_ = std::filesystem::temp_directory_path(error) /
                      ("offload_bench." + std::to_string(getpid()) + ".gguf");
        std::filesystem::copy_file(made.path(), file->path_, error);
        if (error) return failure(Errc::io, file->path_.string(), ": ", error.message());
        return file;
    }
    ~ModelOnDisk() {
        std::error_code error;
        std::filesystem::remove(path_, error);
    }
    ModelOnDisk(const ModelOnDisk&) = delete;
    ModelOnDisk& operator=(const ModelOnDisk&) = delete;
    std::string path() const { return path_.string(); }

private:
    ModelOnDisk() = default;
    std::filesystem::path path_;
};

std::vector<std::string> parts_of(const std::string& list) {
    std::vector<std::string> parts;
    std::istringstream words(list);
    for (std::string word; std::getline(words, word, ',');) parts.push_back(word);
    return parts;
}

Result<> run(const Choice& choice, const std::string& types, const std::string& layers) {
    std::printf("%-13s %6s %7s %11s %11s %8s %8s\n", "model", "layers", "threads", "prompt 512",
                "prompt 2048", "reused", "rebuilt");
    for (const std::string& type : parts_of(types)) {
        HEDDLE_TRY_ASSIGN(const auto file, ModelOnDisk::make(choice.shape, type));
        for (const std::string& count : parts_of(layers)) {
            HEDDLE_TRY(measure(choice, file->path(), type, std::atoll(count.c_str())));
        }
    }
    return ok();
}

}  // namespace
}  // namespace heddle::bench

int main(int count, char** words) {
    const auto argument = [&](int i, const char* otherwise) {
        return count > i ? words[i] : otherwise;
    };
    ggml_backend_load_all();
    const ggml_backend_dev_t device = count > 1
                                          ? ggml_backend_dev_by_name(words[1])
                                          : ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_GPU);
    if (device == nullptr) {
        std::fprintf(stderr, "offload_bench: there is no %s\n",
                     count > 1 ? words[1] : "GPU: nothing is measured");
        return count > 1 ? 1 : 0;
    }
    const int cores = static_cast<int>(std::thread::hardware_concurrency());
    const auto done =
        heddle::bench::run({device, argument(2, "110M"),
                            std::max(1, std::atoi(argument(5, std::to_string(cores).c_str())))},
                           argument(3, "Q4_0"), argument(4, "99,17"));
    if (done) return 0;
    std::fprintf(stderr, "offload_bench: %s\n", done.error().message.c_str());
    return 1;
}
