#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <optional>

#include "bench/ceilings.hpp"
#include "bench/commands.hpp"
#include "bench/device_ceilings.hpp"
#include "bench/measure.hpp"
#include "bench/output.hpp"
#include "bench/synthetic.hpp"
#include "console.hpp"
#include "device_choice.hpp"
#include "ggml/op_list.h"
#include "interrupt.hpp"
#include "model/generator.hpp"
#include "model/placement_text.hpp"
#include "number_checks.hpp"
#include "outcome.hpp"
#include "shared_options.hpp"
#include "work.hpp"

namespace heddle::tool::bench {
namespace {

struct ModelOptions {
    Common common;
    std::string file, shape = "110M", instruction_set = "best";
    std::vector<std::string> types, devices;
    std::int64_t prompt = 512, batch = 512, tokens = 32;
    bool no_fusion = false, mapped = false, join = false;
};

/// Bytes that one more token needs: each weight of a product once, and the keys and values so far.
double bytes_per_token(ggml_cgraph* graph) {
    double bytes = 0;
    const auto add = [&](const ggml_tensor* t) {
        bytes += static_cast<double>(ggml_row_size(t->type, t->ne[0])) *
                 static_cast<double>(ggml_nrows(t));
    };
    for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
        const ggml_tensor* node = ggml_graph_node(graph, i);
        if (node->op == GGML_OP_MUL_MAT) add(node->src[0]);
        if (node->op == GGML_OP_FLASH_ATTN_EXT) add(node->src[1]), add(node->src[2]);
    }
    return bytes;
}

/// Where layers are, and who computed, unless it is all the same.
std::string where_text(const Generator& generator) {
    const auto work = generator.work();
    return places_text(generator.model().places()) +
           (work.size() > 1 ? "; " + work_text(work) : "") + joined_text(generator.joined()) +
           left_out_text(generator.left_out());
}

class ModelBench {
public:
    explicit ModelBench(const ModelOptions& options)
        : options_(options),
          prompt_(options.common.quick ? std::min<std::int64_t>(options.prompt, 32)
                                       : options.prompt),
          tokens_(options.common.quick ? std::min<std::int64_t>(options.tokens, 8)
                                       : options.tokens),
          ceilings_(options.common.quick, memory_to_use(options.common.quick)) {}

    Result<> run() {
        std::vector<std::string> types = options_.types;
        if (!options_.file.empty()) {
            types = {""};
        } else if (types.empty()) {
            types = {"Q4_0"};
        }
        Progress progress("measuring", types.size() * options_.common.thread_counts().size());
        const auto name_of = [&](const std::string& type) {
            return options_.file.empty() ? options_.shape + " " + type
                                         : std::filesystem::path(options_.file).filename().string();
        };
        std::string longest;
        for (const std::string& type : types) {
            if (name_of(type).size() > longest.size()) longest = name_of(type);
        }
        options_.common.output.start(report_, {longest});
        for (const std::string& type : types) {
            if (is_interrupted()) break;
            if (!options_.file.empty()) {
                HEDDLE_TRY(measure_file(options_.file, name_of(type), progress));
                continue;
            }
            HEDDLE_TRY_ASSIGN(const SyntheticModel model,
                              SyntheticModel::make(options_.shape, type));
            HEDDLE_TRY(measure_file(model.path(), name_of(type), progress));
        }
        add_figures();
        return ok();
    }
    Report& report() { return report_; }

private:
    Result<> measure_file(const std::string& path, const std::string& name, Progress& progress) {
        HEDDLE_TRY_ASSIGN(DeviceChoice devices, choose_devices(options_.devices, {}));
        HEDDLE_TRY_ASSIGN(const SharedModelFile file, open_model(path));
        for (const int threads : options_.common.thread_counts()) {
            if (is_interrupted()) break;
            progress.step(name);
            const Generator::Options setting{.rooms = devices.rooms,
                                             .helpers = devices.helpers,
                                             .threads = threads,
                                             .context = prompt_ + tokens_,
                                             .batch = static_cast<std::size_t>(options_.batch),
                                             .policy = Scheduler::Policy::rules,
                                             .on_tensor = {},
                                             .mapped = options_.mapped,
                                             .no_fusion = options_.no_fusion,
                                             .join = options_.join};
            HEDDLE_TRY_ASSIGN(const auto generator, Generator::load(file, setting));
            const std::size_t places = options_.join ? 1 : devices.rooms.size();
            is_host_ = places == generator->left_out().size();
            if (!is_host_ && devices.rooms.size() == 1 && !device_) {
                HEDDLE_TRY(measure_device(devices.rooms.front().device.name()));
            }
            HEDDLE_TRY(measure_model(*generator, name, threads));
        }
        return ok();
    }

    /// What the one device that has layers can do at most.
    Result<> measure_device(const std::string& name) {
        HEDDLE_TRY_ASSIGN(const Target target, Target::open(name));
        DeviceCeilings ceilings(target, options_.common.quick);
        HEDDLE_TRY_ASSIGN(const double peak, ceilings.product());
        HEDDLE_TRY_ASSIGN(const double memory, ceilings.memory());
        device_ = {name, peak, memory, ceilings.memory_bytes()};
        return ok();
    }

    /// Reads a prompt, then word after word, several times over.
    Result<> measure_model(Generator& generator, const std::string& name, int threads) {
        const std::int64_t words = generator.model().shape().words;
        std::vector<Token> prompt(static_cast<std::size_t>(prompt_));
        for (std::size_t i = 0; i < prompt.size(); ++i) {
            prompt[i] = static_cast<Token>(static_cast<std::int64_t>(3 + i * 7) % words);
        }
        std::vector<double> prefills;
        std::vector<Decode> decodes;
        const int rounds = options_.common.quick ? 1 : 4;
        for (int round = 0; round <= rounds; ++round) {
            generator.forget();
            const double begin = now();
            HEDDLE_TRY(generator.read(prompt));
            if (round > 0) prefills.push_back(now() - begin);  // the first finds nothing prepared
            ceilings_.measure_peak_f32(threads);
            // The first word needs another graph than the prompt.
            HEDDLE_TRY(generator.read(std::span(prompt).first(1)));
            HEDDLE_TRY_ASSIGN(const Decode decode,
                              read_words(generator, std::span(prompt).first(1), threads));
            if (round > 0) decodes.push_back(decode);
        }
        return add_row(generator, name, threads, chosen(prefills), chosen(decodes));
    }

    /// Reading words one by one, beside what memory gave at the time: it may change by half from
    /// one minute to the next where machines share it.
    struct Decode {
        double seconds;  ///< of one word
        double memory;   ///< bytes per second

        auto operator<=>(const Decode&) const = default;
    };

    /// Reads one word after the other: a few, then from memory, a few more, and so on.
    Result<Decode> read_words(Generator& generator, std::span<const Token> word, int threads) {
        constexpr std::int64_t kAtOnce = 8;
        std::vector<Decode> all;
        double before = measure_memory(threads);
        for (std::int64_t left = tokens_ - 1; left > 0; left -= kAtOnce) {
            std::vector<double> seconds;
            for (std::int64_t i = 0; i < std::min(left, kAtOnce); ++i) {
                const double begin = now();
                HEDDLE_TRY(generator.read(word));
                seconds.push_back(now() - begin);
            }
            const double after = measure_memory(threads);
            all.push_back({chosen(seconds), std::max(before, after)});
            before = after;
        }
        return chosen(all);
    }

    double measure_memory(int threads) {
        return ceilings_.measure_read(threads, ceilings_.memory_bytes());
    }

    template <class Time>
    Time chosen(std::vector<Time>& times) const {
        std::ranges::sort(times);
        return options_.common.by_median ? times[times.size() / 2] : times.front();
    }

    Result<> add_row(Generator& generator, const std::string& name, int threads, double prefill,
                     const Decode& decode) {
        HEDDLE_TRY_ASSIGN(const auto reading,
                          Generator::describe(generator.model(), prompt_, prompt_));
        HEDDLE_TRY_ASSIGN(const auto writing,
                          Generator::describe(generator.model(), 1, prompt_ + tokens_ / 2));
        const double flops = work_of(reading.graph.c()).flops;
        const double bytes = bytes_per_token(writing.graph.c());
        const double peak = is_host_ ? ceilings_.peak_f32(threads) : device_ ? device_->peak : 0;
        const double memory = is_host_ ? decode.memory : device_ ? device_->memory : 0;
        const double ideal = memory / bytes;
        // What several devices can do together at most is not known.
        const auto if_known = [](double ceiling, double value) {
            return ceiling > 0 ? Report::Value(value) : Report::Value();
        };
        report_.add({name, std::int64_t{threads}, static_cast<double>(prompt_) / prefill,
                     flops / prefill, if_known(peak, flops / prefill / peak), 1 / decode.seconds,
                     bytes, if_known(memory, ideal), if_known(memory, 1 / decode.seconds / ideal),
                     where_text(generator)});
        return ok();
    }

    void add_figures() {
        if (device_) {
            const int threads = options_.common.thread_counts().back();
            report_.add_figure("P, product of f16 on " + device_->name, threads,
                               device_->peak * 1e-9, "GFLOP/s");
            report_.add_figure("B, copy " + bytes_text(device_->bytes) + " on " + device_->name,
                               threads, device_->memory * 1e-9, "GB/s");
        }
        for (const int threads : options_.common.thread_counts()) {
            report_.add_figure("P, multiply-add f32", threads, ceilings_.peak_f32(threads) * 1e-9,
                               "GFLOP/s");
        }
        for (const int threads : options_.common.thread_counts()) {
            report_.add_figure("B, read " + bytes_text(ceilings_.memory_bytes()), threads,
                               ceilings_.memory(threads) * 1e-9, "GB/s");
        }
        const std::string batches =
            options_.batch < prompt_ ? fmt::format(", {} at a time", options_.batch) : "";
        report_.add_note(fmt::format(
            "prefill of {} tokens{}; ideal is B over the bytes that one more token needs", prompt_,
            batches));
        report_.explain_above_one(
            "prefill_share",
            "of P above 1: weights in blocks are multiplied by instructions for 8-bit integers, "
            "which do more at a time than the multiply-adds of f32 that P counts");
        report_.explain_above_one(
            "decode_share",
            "of ideal above 1: caches hold a part of the weights, which is then not read from "
            "memory for each token");
    }

    const ModelOptions& options_;
    std::int64_t prompt_, tokens_;
    bool is_host_ = true;  ///< all layers are the processor's
    struct DeviceLimits {
        std::string name;
        double peak, memory;  ///< operations and bytes per second
        std::size_t bytes;    ///< that were copied
    };
    std::optional<DeviceLimits> device_;
    Ceilings ceilings_;
    Report report_{"model",
                   {{"model", "model", 0, 1, true},
                    {"threads", "threads"},
                    {"prefill_tokens_per_second", "prefill/s"},
                    {"prefill_flops_per_second", "GFLOP/s", 1, 1e-9},
                    {"prefill_share", "of P", 2},
                    {"decode_tokens_per_second", "decode/s"},
                    {"bytes_per_token", "MB/token", 1, 1e-6},
                    {"ideal_tokens_per_second", "ideal/s"},
                    {"decode_share", "of ideal", 2},
                    {"placement", "where", 0, 1, true}}};
};

Result<> run(const ModelOptions& options) {
    HEDDLE_TRY(options.common.output.check());
    HEDDLE_TRY_ASSIGN(const Target cpu, Target::open("CPU"));
    HEDDLE_TRY(choose_instruction_set(cpu, options.instruction_set));
    ModelBench bench(options);
    HEDDLE_TRY(bench.run());
    return options.common.output.show(bench.report());
}

}  // namespace

void add_model(CLI::App& bench, int& status) {
    auto options = std::make_shared<ModelOptions>();
    options->devices = {"CPU"};
    CLI::App* command =
        bench.add_subcommand("model", "Tokens per second of a model, beside what memory allows");
    CLI::Option* file =
        command->add_option("model", options->file, "GGUF file of the llama family; none: made up")
            ->type_name("FILE");
    add_shared(*command, shared::kShape, options->shape, ": " + SyntheticModel::shapes())
        ->capture_default_str()
        ->excludes(file);
    add_shared(*command, shared::kType, options->types, "; several with commas")
        ->default_str("Q4_0")
        ->delimiter(',')
        ->excludes(file);
    command->add_option("--prompt-tokens", options->prompt, "Tokens of the prompt")
        ->capture_default_str()
        ->check(whole_number(std::int64_t{1}, std::int64_t{1} << 20));
    add_shared(*command, shared::kBatch, options->batch)
        ->capture_default_str()
        ->check(whole_number(std::int64_t{1}, std::int64_t{1} << 20));
    add_shared(*command, shared::kTokens, options->tokens)
        ->capture_default_str()
        ->check(whole_number(std::int64_t{2}, std::int64_t{1} << 20));
    add_shared(*command, shared::kDevice, options->devices)->default_str("CPU");
    add_shared_flag(*command, shared::kJoin, options->join);
    add_instruction_set(*command, options->instruction_set);
    add_shared_flag(*command, shared::kNoFusion, options->no_fusion);
    add_shared_flag(*command, shared::kMapped, options->mapped);
    options->common.add_options(*command, false);
    options->common.add_median(*command);
    command->callback(
        [options, &status] { status = report_outcome("bench model", run(*options)); });
}

}  // namespace heddle::tool::bench
