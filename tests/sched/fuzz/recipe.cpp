#include "recipe.hpp"

#include <algorithm>
#include <charconv>

namespace heddle::fuzz {

std::uint64_t Dice::mixed(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
}

std::uint32_t Dice::next() {
    if (source_) return source_(UINT32_MAX);
    state_ += 0x9E3779B97F4A7C15;
    return static_cast<std::uint32_t>(mixed(state_) >> 16);
}

float Dice::number(float low, float high) {
    return low + (high - low) * (static_cast<float>(next() >> 8) / 16777216.0F);
}

// ---- sizes -------------------------------------------------------------------------------------

std::array<std::int64_t, 3> extent_in(const Leaf& leaf, int size) {
    const bool comes_with_runs = leaf.kind == Leaf::Kind::input || leaf.kind == Leaf::Kind::plain ||
                                 leaf.kind == Leaf::Kind::ids;
    if (size == 0 || !comes_with_runs) return leaf.extent;
    Dice dice((std::uint64_t{leaf.seed} << 8) + static_cast<std::uint64_t>(size));
    if (dice.one_in(2)) return leaf.extent;
    std::array<std::int64_t, 3> extent = leaf.extent;
    // One more than in the recipe may or may not fit what was set aside for that.
    std::int64_t& rows = extent[leaf.kind == Leaf::Kind::ids ? 0 : 1];
    rows = dice.between(1, static_cast<int>(rows) + 1);
    return extent;
}

// ---- making ------------------------------------------------------------------------------------

namespace {

int any_device(Dice& dice, int devices) { return dice.between(kHost, devices - 1); }

/// Types of weights: floats, and every block format.
Type any_weight_type(Dice& dice) {
    static const std::vector<Type> all = [] {
        std::vector<Type> types{GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16};
        for (int number = 0; number < GGML_TYPE_COUNT; ++number) {
            const auto type = static_cast<Type>(number);
            if (ggml_blck_size(type) > 1) types.push_back(type);
        }
        return types;
    }();
    if (dice.one_in(2))
        return all[static_cast<std::size_t>(dice.below(static_cast<int>(all.size())))];
    return dice.pick({GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q8_0});
}

Leaf make_leaf(Dice& dice, int number, int devices) {
    Leaf leaf;
    leaf.seed = dice.next();
    leaf.extent = {dice.pick<std::int64_t>({8, 16, 32}), dice.pick<std::int64_t>({1, 2, 4, 8}),
                   dice.pick<std::int64_t>({1, 1, 1, 2})};
    const int kind = number == 0 ? 0 : dice.below(12);
    if (kind < 3) {
        leaf.kind = Leaf::Kind::input;
    } else if (kind < 4) {
        leaf.kind = Leaf::Kind::plain;
    } else if (kind < 5) {
        leaf.kind = Leaf::Kind::given;
        leaf.device = any_device(dice, devices);
    } else if (kind < 6) {
        leaf.kind = Leaf::Kind::ids;
        leaf.type = GGML_TYPE_I32;
        leaf.extent = {dice.pick<std::int64_t>({4, 8, 16}), 1, 1};
    } else if (kind < 10) {
        leaf.kind = Leaf::Kind::weight;
        leaf.device = any_device(dice, devices);
        leaf.type = any_weight_type(dice);
        const std::int64_t block = ggml_blck_size(leaf.type);
        const bool wide = block > 32;
        leaf.extent = {block > 1 ? block : leaf.extent[0],
                       wide ? 8 : dice.pick<std::int64_t>({8, 16, 32}),
                       wide ? 1 : dice.pick<std::int64_t>({1, 1, 4, 8})};
    } else if (kind < 11 || !dice.one_in(8)) {
        leaf.kind = Leaf::Kind::state;
        leaf.device = any_device(dice, devices);
        leaf.extent = {dice.pick<std::int64_t>({16, 32}), kIds, 1};
    } else {
        leaf.kind = Leaf::Kind::given;
        leaf.device = kForeign;
    }
    return leaf;
}

/// More experts on the host than a small budget lets a device keep, chosen again and again.
void prefer_experts(Recipe& recipe, std::vector<int>& favourites, Dice& dice) {
    for (std::size_t i = 1; i < recipe.leafs.size(); ++i) {
        Leaf& leaf = recipe.leafs[i];
        leaf.kind = Leaf::Kind::weight;
        leaf.type = GGML_TYPE_F32;
        leaf.extent = {16, 16, dice.pick<std::int64_t>({4, 8})};
        leaf.device = kHost;
    }
    favourites.clear();
    for (std::size_t i = 0; i < ops().size(); ++i) {
        const std::string_view name = ops()[i].name;
        const bool wanted = name == "mul_mat_id" || name == "norm" || name == "add";
        if (wanted) favourites.push_back(static_cast<int>(i));
    }
}

/// A cache of keys whose rows are written and looked at, and parts of results: what differs most
/// between sizes of a graph.
void prefer_caches(Recipe& recipe, std::vector<int>& favourites, Dice& dice, int devices) {
    Leaf& cache = recipe.leafs[1];
    cache.kind = Leaf::Kind::state;
    cache.type = GGML_TYPE_F32;
    cache.device = any_device(dice, devices);
    cache.extent = {16, kIds, 1};
    constexpr std::string_view kFew[] = {"window", "glance", "store", "slice",
                                         "add",    "unary",  "norm"};
    favourites.clear();
    for (std::size_t i = 0; i < ops().size(); ++i) {
        if (std::ranges::count(kFew, ops()[i].name) > 0) favourites.push_back(static_cast<int>(i));
    }
}

/// Of what a graph has more than of all else.
enum class Theme { none, experts, caches };

Recipe make_recipe(Dice& dice, int devices, Theme theme, bool small) {
    const bool with_experts = theme == Theme::experts;
    Recipe recipe;
    const int leafs = with_experts ? 8 : dice.between(2, small ? 5 : 8);
    const int steps = small ? 40 : with_experts ? 20 : dice.pick({3, 8, 15, 25, 40});
    for (int i = 0; i < leafs; ++i) recipe.leafs.push_back(make_leaf(dice, i, devices));
    const bool pins = dice.one_in(3), memory = dice.one_in(4);
    // A few ops again and again meet each other in more ways than all of them once.
    std::vector<int> favourites;
    const int few = dice.one_in(2) ? dice.between(2, 8) : static_cast<int>(ops().size());
    for (int i = 0; i < few; ++i) favourites.push_back(dice.below(static_cast<int>(ops().size())));
    if (with_experts) prefer_experts(recipe, favourites, dice);
    if (theme == Theme::caches) prefer_caches(recipe, favourites, dice, devices);
    for (int i = 0; i < steps; ++i) {
        // One more or not, each time: so a step can be left out of the choices.
        if (small && i > 0 && dice.below(8) == 0) break;
        Step step;
        step.op =
            favourites[static_cast<std::size_t>(dice.below(static_cast<int>(favourites.size())))];
        for (int& operand : step.operands) {
            // Recent values make graphs deep; old ones let copies and memory live long; leafs have
            // weights and states among them.
            const int made = leafs + i;
            const int kind = dice.below(5);
            operand = kind == 0   ? dice.below(made)
                      : kind == 1 ? dice.below(leafs)
                                  : made - 1 - dice.below(std::min(made, 5));
        }
        step.seed = dice.next();
        step.is_output = dice.one_in(6);
        if (pins && dice.one_in(4)) step.pin = dice.between(-1, devices - 1);
        if (memory && dice.one_in(8)) step.memory = any_device(dice, devices);
        recipe.steps.push_back(step);
    }
    recipe.steps.back().is_output = true;
    return recipe;
}

}  // namespace

namespace {

void choose_devices(Case& made, Dice& dice, const Scope& scope) {
    const int devices = dice.pick({1, 1, 2, 2, 3, 4});
    // Devices of one configuration are neighbours: they know each other's memory.
    const int first = dice.below(scope.devices);
    const bool neighbours = dice.one_in(2);
    for (int i = 0; i < devices; ++i) {
        made.devices.push_back(neighbours ? (first + i) % scope.devices
                                          : dice.below(scope.devices));
    }
    if (scope.devices > scope.exact_devices && dice.one_in(2)) {
        made.devices.push_back(dice.between(scope.exact_devices, scope.devices - 1));
    }
    std::sort(made.devices.begin(), made.devices.end());
    made.devices.erase(std::unique(made.devices.begin(), made.devices.end()), made.devices.end());
    made.rounds = made.devices.back() >= scope.exact_devices;
}

Fault make_fault(Dice& dice, const Case& made, const Scope& scope) {
    Fault fault;
    fault.device = dice.below(static_cast<int>(made.devices.size()));
    if (made.devices[static_cast<std::size_t>(fault.device)] >= scope.exact_devices) return fault;
    fault.kind = dice.pick(
        {Fault::Kind::node, Fault::Kind::copy, Fault::Kind::allocation, Fault::Kind::lost});
    // Most graphs do few things on a device.
    fault.number = 1 + dice.below(dice.pick({1, 3, 10, 60}));
    return fault;
}

void choose_runs(Case& made, Dice& dice, const Scope& scope, bool with_sizes) {
    const int graphs = static_cast<int>(made.graphs.size());
    const bool with_faults = scope.faults && dice.one_in(3);
    const int runs = dice.between(graphs, graphs + (scope.small ? 2 : 4) + (with_sizes ? 2 : 0));
    for (int i = 0; i < runs; ++i) {
        Run run;
        run.graph = i < graphs ? i : dice.below(graphs);
        run.seed = dice.next();
        run.rebuild = dice.one_in(3);
        run.wait = i + 1 == runs || dice.one_in(2);
        run.reserve = dice.one_in(6);
        run.new_weights = dice.one_in(5);
        if (with_sizes) run.size = dice.below(kSizes);
        if (with_faults && dice.one_in(2)) run.fault = make_fault(dice, made, scope);
        made.runs.push_back(run);
    }
}

}  // namespace

Case make_case(Dice& dice, const Scope& scope) {
    Case made;
    choose_devices(made, dice, scope);
    const int count = static_cast<int>(made.devices.size());
    made.blas = scope.blas && dice.one_in(4);
    made.rounds |= made.blas;
    made.offload = dice.one_in(2);
    made.by_cost = dice.one_in(5);
    made.observed = dice.one_in(10);
    made.tracing = dice.one_in(10);
    made.synchronous = dice.one_in(15);
    made.checked = !dice.one_in(4);
    made.slots = dice.pick({1, 1, 1, 2, 4});
    made.budget = dice.pick<std::size_t>({0, 0, 0, 16384, 32768, 65536});
    made.threads = dice.pick({1, 1, 2});
    const int graphs = dice.pick({1, 1, 1, 2});
    const bool with_experts = dice.one_in(10);
    if (with_experts) {
        made.offload = true;
        made.by_cost = false;
        made.rounds = made.devices.back() >= scope.exact_devices;
        made.blas = false;
        made.budget = static_cast<std::size_t>(dice.between(16, 64)) << 10;
    }
    const bool with_sizes = dice.one_in(2);
    const bool with_caches = with_sizes && !with_experts && dice.one_in(2);
    const Theme theme = with_experts ? Theme::experts : with_caches ? Theme::caches : Theme::none;
    for (int i = 0; i < graphs; ++i) {
        made.graphs.push_back(make_recipe(dice, count, theme, scope.small));
    }
    choose_runs(made, dice, scope, with_sizes);
    return made;
}

// ---- making smaller ----------------------------------------------------------------------------

namespace {

/// "s0.5" of which 0 and 5; negative where there is none.
struct Numbers {
    int first = -1, second = -1;
};

Numbers numbers_of(std::string_view word) {
    Numbers numbers;
    const char* end = word.data() + word.size();
    const auto [at, error] = std::from_chars(word.data() + 1, end, numbers.first);
    if (error == std::errc{} && at != end) std::from_chars(at + 1, end, numbers.second);
    return numbers;
}

/// Sets `value` to `smaller`; false if it was that.
template <class T>
bool set(T& value, T smaller) {
    return std::exchange(value, smaller) != smaller;
}

bool drop_device(Case& which, int number) {
    if (which.devices.size() < 2 || number >= static_cast<int>(which.devices.size())) return false;
    which.devices.erase(which.devices.begin() + number);
    const auto renumber = [&](int& device) {
        if (device == number) device = kHost;
        if (device > number) --device;
    };
    for (Recipe& recipe : which.graphs) {
        for (Leaf& leaf : recipe.leafs) renumber(leaf.device);
        for (Step& step : recipe.steps) renumber(step.pin), renumber(step.memory);
    }
    for (Run& run : which.runs) {
        if (run.fault.device == number) run.fault = {};
        if (run.fault.device > number) --run.fault.device;
    }
    return true;
}

bool drop_run(Case& which, int number) {
    if (which.runs.size() < 2 || number >= static_cast<int>(which.runs.size())) return false;
    which.runs.erase(which.runs.begin() + number);
    which.runs.back().wait = true;
    return true;
}

bool reduce_part(Case& which, std::string_view word, bool& known) {
    const auto [first, second] = numbers_of(word);
    known = first >= 0;
    if (!known) return false;
    if (word[0] == 'r') return drop_run(which, first);
    if (word[0] == 'd') return drop_device(which, first);
    if (second < 0 || first >= static_cast<int>(which.graphs.size())) return false;
    Recipe& recipe = which.graphs[static_cast<std::size_t>(first)];
    const auto at = static_cast<std::size_t>(second);
    if (word[0] == 'l') return at < recipe.leafs.size() && set(recipe.leafs[at].device, kHost);
    if (at >= recipe.steps.size()) return false;
    Step& step = recipe.steps[at];
    if (word[0] == 's') return set(step.is_dropped, true);
    if (word[0] == 'o') return set(step.is_output, false);
    if (word[0] != 'p') return false;
    const bool pin = set(step.pin, -2), memory = set(step.memory, -2);
    return pin || memory;
}

}  // namespace

bool reduce(Case& which, std::string_view word) {
    const auto each_run = [&](bool Run::*member, bool value) {
        bool changed = false;
        for (Run& run : which.runs) changed |= set(run.*member, value);
        return changed;
    };
    if (word == "faults") {
        bool changed = false;
        for (Run& run : which.runs) changed |= set(run.fault.kind, Fault::Kind::none);
        return changed;
    }
    if (word == "sizes") {
        bool changed = false;
        for (Run& run : which.runs) changed |= set(run.size, 0);
        return changed;
    }
    if (word == "blas") return set(which.blas, false);
    if (word == "offload") return set(which.offload, false);
    if (word == "cost") return set(which.by_cost, false);
    if (word == "observed") return set(which.observed, false);
    if (word == "tracing") return set(which.tracing, false);
    if (word == "synchronous") return set(which.synchronous, false);
    if (word == "checked") return set(which.checked, false);
    if (word == "slots") return set(which.slots, 1);
    if (word == "budget") return set<std::size_t>(which.budget, 0);
    if (word == "threads") return set(which.threads, 1);
    if (word == "waits") return each_run(&Run::wait, true);
    if (word == "rebuilds") return each_run(&Run::rebuild, false);
    if (word == "reserves") return each_run(&Run::reserve, false);
    if (word == "weights") return each_run(&Run::new_weights, false);
    bool known = false;
    return reduce_part(which, word, known) && known;
}

std::vector<std::string> reductions(const Case& which) {
    std::vector<std::string> words;
    const auto add = [&](char kind, auto first) { words.push_back(text(kind, first)); };
    for (std::size_t i = which.runs.size(); i-- > 0;) add('r', i);
    for (std::size_t i = which.devices.size(); i-- > 0;) add('d', i);
    for (const char* word :
         {"cost", "blas", "slots", "observed", "offload", "budget", "threads", "checked", "tracing",
          "synchronous", "waits", "rebuilds", "reserves", "weights", "sizes", "faults"}) {
        words.emplace_back(word);
    }
    for (std::size_t graph = 0; graph < which.graphs.size(); ++graph) {
        const Recipe& recipe = which.graphs[graph];
        const auto add_part = [&](char kind, std::size_t part) {
            words.push_back(text(kind, graph, ".", part));
        };
        for (std::size_t i = recipe.steps.size(); i-- > 0;) add_part('s', i);
        for (std::size_t i = recipe.steps.size(); i-- > 0;) add_part('o', i), add_part('p', i);
        for (std::size_t i = recipe.leafs.size(); i-- > 0;) add_part('l', i);
    }
    return words;
}

}  // namespace heddle::fuzz
