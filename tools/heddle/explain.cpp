#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench/synthetic.hpp"
#include "commands.hpp"
#include "console.hpp"
#include "device_choice.hpp"
#include "model/generator.hpp"
#include "model/placement_text.hpp"
#include "number_checks.hpp"
#include "outcome.hpp"
#include "page_about.hpp"
#include "schedule_tables.hpp"
#include "shared_options.hpp"

/// `heddle explain`: where a model would run and what memory it needs, before anything is loaded.
namespace heddle::tool {
namespace {

using nlohmann::json;

struct ExplainOptions {
    std::string model, shape, type = "Q4_0", html, trace, dot;
    RunsOn on;
    std::int64_t tokens = 1, batch = 512;
    bool json = false, nodes = false, schedule = false, run = false;
};

/// What the model takes of one device.
struct Demand {
    std::string device;
    std::size_t weights = 0, cache = 0, compute = 0;
    std::size_t free = 0, budget = 0;  ///< 0: not known, not given

    std::size_t total() const { return weights + cache + compute; }
    std::size_t limit() const {
        if (free == 0 || budget == 0) return std::max(free, budget);
        return std::min(free, budget);
    }
    bool fits() const { return limit() == 0 || total() <= limit(); }
};

struct Explanation {
    std::vector<Demand> demands;
    std::vector<std::string> places;
    std::vector<LeftOut> left_out;
    std::vector<std::string> joined;
    std::int64_t context = 0;
    json schedule;
    std::string text, html, trace, dot;
};

/// Weights and caches by device; the processor is the first.
std::vector<Demand> demands_of(const Llama& model, const std::vector<Room>& rooms) {
    std::vector<Demand> demands;
    for (const Need& need : model.needs()) {
        Demand demand{.device = need.device.name(), .weights = need.weights, .cache = need.cache};
        const auto room = std::ranges::find(rooms, need.device, &Room::device);
        if (room != rooms.end()) demand.budget = room->budget;
        demand.free =
            room != rooms.end() ? free_memory(*room) : need.device.properties().memory_free;
        demands.push_back(demand);
    }
    return demands;
}

/// The schedule in the ways that were asked for.
Result<> look_at(Scheduler& scheduler, const ExplainOptions& options, Explanation& explanation) {
    HEDDLE_TRY_ASSIGN(const std::string data, scheduler.explain(HEDDLE_EXPLAIN_JSON));
    explanation.schedule = json::parse(data, nullptr, false);
    if (options.schedule) {
        HEDDLE_TRY_ASSIGN(explanation.text, scheduler.explain(HEDDLE_EXPLAIN_TEXT));
    }
    if (!options.html.empty()) {
        HEDDLE_TRY_ASSIGN(std::string page, scheduler.explain(HEDDLE_EXPLAIN_HTML));
        explanation.html = with_about(std::move(page), options.model);
    }
    if (!options.trace.empty()) {
        HEDDLE_TRY_ASSIGN(explanation.trace, scheduler.explain(HEDDLE_EXPLAIN_TRACE));
    }
    if (!options.dot.empty()) {
        HEDDLE_TRY_ASSIGN(explanation.dot, scheduler.explain(HEDDLE_EXPLAIN_DOT));
    }
    return ok();
}

/// Nothing is read but the head of the file, and no memory is taken for weights or results.
Result<Explanation> forecast(const ModelFile& file, const ExplainOptions& options,
                             const Generator::Options& given) {
    HEDDLE_TRY_ASSIGN(const Generator::Options setting, Generator::fit(file, given));
    HEDDLE_TRY_ASSIGN(const auto model, Llama::load(file, {.rooms = setting.rooms,
                                                           .context = setting.context,
                                                           .on_tensor = {},
                                                           .only_describe = true}));
    if (options.tokens > model->context()) {
        return invalid(options.tokens, " tokens at a time, but room for ", model->context(),
                       "; lower --read or raise --context");
    }
    HEDDLE_TRY_ASSIGN(Scheduler scheduler, Generator::make_scheduler(*model, setting));
    Explanation explanation;
    explanation.demands = demands_of(*model, setting.rooms);
    explanation.places = model->places();
    explanation.left_out = setting.left_out;
    explanation.joined = joined_names(setting.rooms, model->places());
    explanation.context = model->context();
    HEDDLE_TRY_ASSIGN(const auto largest, Generator::describe_largest(*model, setting.batch));
    HEDDLE_TRY_ASSIGN(auto results, Generator::result_bytes(scheduler, largest));
    for (Demand& demand : explanation.demands) demand.compute = results[demand.device];

    HEDDLE_TRY_ASSIGN(const auto shown,
                      Generator::describe(*model, options.tokens, model->context()));
    scheduler.reset();
    HEDDLE_TRY(Generator::pin_norms(scheduler, shown.batch));
    detail::call([&] {
        ggml_backend_sched_split_graph(scheduler.c(), shown.graph.c());
        return 0;
    });
    HEDDLE_TRY(detail::check_said(Errc::device));
    HEDDLE_TRY(look_at(scheduler, options, explanation));
    return explanation;
}

/// Loads the model and runs it, so that there are times to show.
Result<> measure(const SharedModelFile& file, const ExplainOptions& options,
                 const Generator::Options& setting, Explanation& explanation) {
    HEDDLE_TRY_ASSIGN(const auto generator, Generator::load(file, setting));
    const Token begin = std::max<Token>(generator->tokenizer().vocabulary().bos, 0);
    const std::vector<Token> tokens(static_cast<std::size_t>(options.tokens), begin);
    HEDDLE_TRY(generator->read(tokens));  // everything that happens only once
    generator->forget();
    generator->set_tracing(true);
    HEDDLE_TRY(generator->read(tokens));
    return look_at(generator->scheduler(), options, explanation);
}

void print_memory(const Explanation& explanation) {
    Table table({"device", "weights", "cache", "compute", "total", "available", "fits"});
    table.align_left(6);
    std::vector<std::size_t> sums(4);
    for (const Demand& d : explanation.demands) {
        const std::string over =
            d.fits() ? "yes" : "no, " + bytes_text(d.total() - d.limit()) + " short";
        table.add({d.device, bytes_text(d.weights), bytes_text(d.cache), bytes_text(d.compute),
                   bytes_text(d.total()), d.limit() == 0 ? "-" : bytes_text(d.limit()), over},
                  d.fits() ? Colour::plain : Colour::red);
        sums[0] += d.weights, sums[1] += d.cache, sums[2] += d.compute, sums[3] += d.total();
    }
    table.add({"all", bytes_text(sums[0]), bytes_text(sums[1]), bytes_text(sums[2]),
               bytes_text(sums[3])});
    table.print();
}

/// "0.74 ms", "1.46 s"
std::string time_text(double seconds) {
    return seconds < 1 ? fmt::format("{:.3g} ms", seconds * 1e3) : fmt::format("{:.3g} s", seconds);
}

void print_tables(const Explanation& explanation, const ExplainOptions& options) {
    const json& schedule = explanation.schedule;
    print("{}: {} token{} at a time, room for {}; {}{}{}\n\n", options.model, options.tokens,
          options.tokens == 1 ? "" : "s", explanation.context, places_text(explanation.places),
          joined_text(explanation.joined), left_out_text(explanation.left_out));
    print_memory(explanation);
    print("\n");
    print_splits(schedule);
    print("\n{} nodes in {} split{}, placed by {}", schedule["nodes"].size(),
          schedule["splits"].size(), schedule["splits"].size() == 1 ? "" : "s",
          schedule["policy"].get<std::string>());
    const double predicted = schedule["predicted_seconds"], measured = schedule["measured_seconds"];
    if (predicted > 0) {
        print("; predicted {} {} (speeds {})", time_text(predicted),
              options.run ? "at the beginning of a text" : "with a full cache",
              schedule["cost_origin"].get<std::string>());
    }
    if (measured > 0) print(", measured {}", time_text(measured));
    if (measured > 0 && predicted > 0) print(": {:.2f} times as long", measured / predicted);
    print("\n");
    if (measured > 0) print_sums(schedule);
    if (options.nodes) print_nodes(schedule);
    if (options.schedule) print("\n{}", explanation.text);
}

void print_json(const Explanation& explanation, const ExplainOptions& options) {
    json memory = json::array();
    bool fits = true;
    for (const Demand& d : explanation.demands) {
        fits = fits && d.fits();
        memory.push_back({{"device", d.device},
                          {"weights", d.weights},
                          {"cache", d.cache},
                          {"compute", d.compute},
                          {"total", d.total()},
                          {"free", d.free},
                          {"budget", d.budget},
                          {"fits", d.fits()}});
    }
    json left_out = json::array();
    for (const auto& [device, reason] : explanation.left_out) {
        left_out.push_back({{"device", device}, {"reason", reason}});
    }
    const auto& places = explanation.places;
    const json all{{"model", options.model},
                   {"tokens", options.tokens},
                   {"context", explanation.context},
                   {"memory", memory},
                   {"fits", fits},
                   {"placement",
                    {{"layers", std::vector(places.begin(), places.end() - 1)},
                     {"output", places.back()},
                     {"joined", explanation.joined},
                     {"left_out", left_out}}},
                   {"schedule", explanation.schedule}};
    print("{}\n", all.dump(2, ' ', false, json::error_handler_t::replace));
}

Result<> write_pages(const Explanation& explanation, const ExplainOptions& options) {
    const std::pair<const std::string&, const std::string&> pages[] = {
        {options.html, explanation.html},
        {options.trace, explanation.trace},
        {options.dot, explanation.dot}};
    for (const auto& [path, content] : pages) {
        if (path.empty()) continue;
        HEDDLE_TRY(write_file(path, content));
        print_beside(fmt::format("wrote {}\n", path));
    }
    return ok();
}

/// The model of a file, or one that has a shape and no weights; that is called by both.
Result<SharedModelFile> open_or_make(ExplainOptions& options) {
    if (options.shape.empty()) return open_model(options.model);
    HEDDLE_TRY_ASSIGN(const auto made,
                      bench::SyntheticModel::describe(options.shape, options.type));
    options.model = options.shape + " of " + options.type;
    return open_model(made.path());  // which stays mapped
}

Result<> explain(ExplainOptions& options) {
    expect_files_cut_short();
    HEDDLE_TRY(check_output_files({options.html, options.trace, options.dot}));
    HEDDLE_TRY_ASSIGN(const SharedModelFile file, open_or_make(options));
    HEDDLE_TRY_ASSIGN(Generator::Options setting, options.on.generator_options(*file));
    setting.batch = static_cast<std::size_t>(std::max(options.batch, options.tokens));
    HEDDLE_TRY_ASSIGN(Explanation explanation, forecast(*file, options, setting));
    if (options.run) HEDDLE_TRY(measure(file, options, setting, explanation));
    HEDDLE_TRY(write_pages(explanation, options));
    if (options.json) {
        print_json(explanation, options);
    } else {
        print_tables(explanation, options);
    }
    return ok();
}

}  // namespace

void add_explain(CLI::App& app, int& status) {
    auto options = std::make_shared<ExplainOptions>();
    CLI::App* command = app.add_subcommand(
        "explain", "Show where a model would run and what memory it needs, without loading it");
    CLI::Option* file =
        command->add_option("model", options->model, "GGUF file of the llama family")
            ->type_name("FILE");
    CLI::Option* shape =
        add_shared(*command, shared::kShape, options->shape, ": " + bench::SyntheticModel::shapes())
            ->excludes(file);
    add_shared(*command, shared::kType, options->type, ", with --shape")
        ->capture_default_str()
        ->needs(shape);
    options->on.add_options(*command);
    command
        ->add_option("--read", options->tokens,
                     "Tokens that are read at a time in the schedule that is shown")
        ->capture_default_str()
        ->check(whole_number(std::int64_t{1}, std::int64_t{1} << 20));
    add_shared(*command, shared::kBatch, options->batch, ": decides the memory")
        ->capture_default_str()
        ->check(whole_number(std::int64_t{1}, std::int64_t{1} << 20));
    command->option_defaults()->group("Output");
    CLI::Option* run =
        command->add_flag("--run", options->run, "Load the model and run it, to measure times")
            ->excludes(shape);
    command->add_flag("--nodes", options->nodes, "List every node with the reason for its place");
    command->add_flag("--schedule", options->schedule,
                      "Show copies, actions and memory over time too");
    add_shared(*command, shared::kHtml, options->html, ": the schedule");
    command->add_option("--trace", options->trace, "Write it as a trace for Perfetto or Chrome")
        ->type_name("FILE")
        ->needs(run);
    command->add_option("--dot", options->dot, "Write the graph for Graphviz")->type_name("FILE");
    add_shared_flag(*command, shared::kJson, options->json);
    command->callback([options, &status] {
        if (options->model.empty() && options->shape.empty()) {
            throw CLI::RequiredError("model or --shape");
        }
        status = report_outcome("explain", explain(*options));
    });
}

}  // namespace heddle::tool
