#include "backends/sim/parameters.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <span>
#include <string>

#include "ggml/op_list.h"
#include "ops/catalogue.hpp"
#include "ops/custom.hpp"

namespace heddle::sim {
namespace {

// ---- values with units -------------------------------------------------------------------------

struct Unit {
    std::string_view name;
    double factor;
};

constexpr double kKibi = 1024;
constexpr Unit kBytes[] = {{"", 1},
                           {"K", kKibi},
                           {"M", kKibi* kKibi},
                           {"G", kKibi* kKibi* kKibi},
                           {"T", kKibi* kKibi* kKibi* kKibi}};
constexpr Unit kRates[] = {{"", 1}, {"k", 1e3}, {"K", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}};
constexpr Unit kTimes[] = {{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}};
constexpr Unit kCounts[] = {{"", 1}};

/// What values a parameter may have, and how they are written.
struct Domain {
    std::span<const Unit> units;
    double least, most;
    std::string_view form;  ///< for people
};

// Doubles count bytes exactly up to 2^53, and no machine has as much.
constexpr Domain kByteDomain{kBytes, 1, 9e15, "a number of bytes such as 4G"};
constexpr Domain kRateDomain{kRates, 1, 1e30, "a rate such as 20T"};
constexpr Domain kTimeDomain{kTimes, 0, 1e9, "a time such as 10us"};
constexpr Domain kCountDomain{kCounts, 1, 1e15, "a count such as 3"};
constexpr Domain kDeviceDomain{kCounts, 1, 1024, "a number of devices from 1 to 1024"};
constexpr Domain kHostDomain{kCounts, 1, 1024, "a number of hosts from 1 to 1024"};
constexpr Domain kSwitchDomain{kCounts, 0, 1, "0 or 1"};

Result<double> parse_value(const Domain& domain, std::string_view text) {
    const Error wrong = invalid("'", text, "' is not ", domain.form);
    double number = 0;
    const auto [rest, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (failed != std::errc{} || !std::isfinite(number)) return wrong;
    const std::string_view suffix(rest, static_cast<std::size_t>(text.data() + text.size() - rest));
    const auto unit = std::find_if(domain.units.begin(), domain.units.end(),
                                   [&](const Unit& each) { return each.name == suffix; });
    if (unit == domain.units.end()) return wrong;
    const double value = number * unit->factor;
    if (!(value >= domain.least && value <= domain.most)) return wrong;
    const bool is_whole = domain.units.data() != kCounts || value == std::floor(value);
    if (!is_whole) return wrong;
    return value;
}

// ---- the parameters there are ------------------------------------------------------------------

/// Parameters of a target, by name: the one list that parsing and messages read.
template <class Target>
struct Field {
    std::string_view name;
    Domain domain;
    void (*store)(Target& target, double value);
};

constexpr Field<FaultPlan> kFaultFields[] = {
    {"alloc", kCountDomain,
     [](FaultPlan& plan, double v) { plan.allocation = static_cast<std::uint64_t>(v); }},
    {"copy", kCountDomain,
     [](FaultPlan& plan, double v) { plan.copy = static_cast<std::uint64_t>(v); }},
    {"node", kCountDomain,
     [](FaultPlan& plan, double v) { plan.node = static_cast<std::uint64_t>(v); }},
    {"lost", kTimeDomain, [](FaultPlan& plan, double v) { plan.lost = v; }},
};

constexpr Field<Parameters> kFields[] = {
    {"devices", kDeviceDomain, [](Parameters& p, double v) { p.devices = static_cast<int>(v); }},
    {"mem", kByteDomain, [](Parameters& p, double v) { p.memory = static_cast<std::size_t>(v); }},
    {"maxbuf", kByteDomain,
     [](Parameters& p, double v) { p.max_buffer = static_cast<std::size_t>(v); }},
    {"flops", kRateDomain, [](Parameters& p, double v) { p.flops = v; }},
    {"membw", kRateDomain, [](Parameters& p, double v) { p.memory_bandwidth = v; }},
    {"link", kRateDomain, [](Parameters& p, double v) { p.link_bandwidth = v; }},
    {"latency", kTimeDomain, [](Parameters& p, double v) { p.latency = v; }},
    {"hosts", kHostDomain, [](Parameters& p, double v) { p.hosts = static_cast<int>(v); }},
    {"net", kRateDomain, [](Parameters& p, double v) { p.net_bandwidth = v; }},
    {"hop", kTimeDomain, [](Parameters& p, double v) { p.hop = v; }},
    {"numbers", kSwitchDomain, [](Parameters& p, double v) { p.numbers = v != 0; }},
    {"pinned", kSwitchDomain, [](Parameters& p, double v) { p.pinned = v != 0; }},
    {"offload", kCountDomain,
     [](Parameters& p, double v) { p.offload_rows = static_cast<std::int64_t>(v); }},
    {"trace", kSwitchDomain, [](Parameters& p, double v) { p.trace = v != 0; }},
};

template <class Target, std::size_t count>
const Field<Target>* find_field(const Field<Target> (&fields)[count], std::string_view name) {
    const auto* found = std::find_if(
        fields, fields + count, [&](const Field<Target>& field) { return field.name == name; });
    return found != fields + count ? found : nullptr;
}

template <class Target>
Result<> store(const Field<Target>& field, std::string_view value, Target& target) {
    auto number = parse_value(field.domain, value);
    if (!number) return std::move(number).error().within(field.name);
    field.store(target, *number);
    return ok();
}

/// "name=value", and pieces without '=' as a value alone.
struct Assignment {
    std::string_view name, value;
    bool has_name;

    explicit Assignment(std::string_view piece) : value(piece), has_name(false) {
        const std::size_t sign = piece.find('=');
        if (sign == std::string_view::npos) return;
        name = piece.substr(0, sign);
        value = piece.substr(sign + 1);
        has_name = true;
    }
};

/// Calls `body(piece)` for what lies between commas, until one fails. Nothing for an empty text.
template <class Body>
Result<> for_pieces(std::string_view text, Body&& body) {
    while (!text.empty()) {
        const std::size_t comma = std::min(text.find(','), text.size());
        HEDDLE_TRY(body(text.substr(0, comma)));
        if (comma + 1 == text.size()) return invalid("there is nothing behind the last comma");
        text.remove_prefix(std::min(comma + 1, text.size()));
    }
    return ok();
}

/// The names for a message: "alloc, copy".
template <class Target, std::size_t count>
std::string names_of(const Field<Target> (&fields)[count]) {
    std::string names;
    for (const Field<Target>& field : fields) {
        if (!names.empty()) names += ", ";
        names += field.name;
    }
    return names;
}

// ---- ops ---------------------------------------------------------------------------------------

std::string upper(std::string_view word) {
    std::string result(word);
    std::transform(result.begin(), result.end(), result.begin(), [](char c) {
        return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    });
    return result;
}

}  // namespace

OpSet::OpSet() : ops_(all_ops().size()) {}

OpSet OpSet::all() {
    OpSet set;
    set.unary_.set();
    set.glu_.set();
    for (const OpInfo& op : all_ops()) set.ops_[op.id] = !ops::runs_callers_function(op.id);
    return set;
}

bool OpSet::has(const Tensor& node) const {
    const auto number = static_cast<std::size_t>(node.op);
    if (number >= ops_.size() || !ops_[number]) return false;
    const auto function = static_cast<std::size_t>(node.op_params[0]);
    if (node.op == GGML_OP_UNARY) return function < unary_.size() && unary_[function];
    if (node.op == GGML_OP_GLU) return function < glu_.size() && glu_[function];
    return true;
}

void OpSet::set(Op op, bool value) {
    ops_[op] = value;
    if (op == GGML_OP_UNARY) value ? unary_.set() : unary_.reset();
    if (op == GGML_OP_GLU) value ? glu_.set() : glu_.reset();
}

Result<> OpSet::apply(std::string_view word) {
    const bool value = !word.starts_with('-');
    const std::string name = upper(value ? word : word.substr(1));
    if (value && name == "ALL") return *this = all(), ok();
    if (value && name == "NONE") return *this = {}, ok();
    for (const OpInfo& op : all_ops()) {
        if (op.name != name) continue;
        if (value && ops::runs_callers_function(op.id)) {
            return invalid("ops: ", name, " calls a function that only the CPU can call");
        }
        return set(op.id, value), ok();
    }
    for (std::size_t i = 0; i < unary_.size(); ++i) {
        if (name_of(static_cast<ggml_unary_op>(i)) != name) continue;
        if (value) ops_[GGML_OP_UNARY] = true;
        return unary_.set(i, value), ok();
    }
    for (std::size_t i = 0; i < glu_.size(); ++i) {
        if (name_of(static_cast<ggml_glu_op>(i)) != name) continue;
        if (value) ops_[GGML_OP_GLU] = true;
        return glu_.set(i, value), ok();
    }
    return invalid("ops: there is no op '", name, "'");
}

Result<FaultPlan> parse_faults(std::string_view text) {
    FaultPlan plan;
    HEDDLE_TRY(for_pieces(text, [&](std::string_view piece) -> Result<> {
        const Assignment assignment(piece);
        const auto* field = find_field(kFaultFields, assignment.name);
        if (field == nullptr) {
            return invalid("there is no fault '", piece, "'; there are ", names_of(kFaultFields),
                           ", each with a value");
        }
        return store(*field, assignment.value, plan);
    }));
    return plan;
}

Result<Parameters> parse_parameters(std::string_view text) {
    Parameters parameters;
    parameters.max_buffer = 0;  // not named yet
    bool in_ops = false;        // commas also separate the words of `ops`
    HEDDLE_TRY(for_pieces(text, [&](std::string_view piece) -> Result<> {
        const Assignment assignment(piece);
        if (assignment.has_name && assignment.name == "ops") {
            // A list that only takes away takes away from all.
            parameters.ops = assignment.value.starts_with('-') ? OpSet::all() : OpSet{};
            in_ops = true;
        }
        if (in_ops && (!assignment.has_name || assignment.name == "ops")) {
            return parameters.ops.apply(assignment.value);
        }
        in_ops = false;
        if (const auto* field = find_field(kFields, assignment.name)) {
            return store(*field, assignment.value, parameters);
        }
        if (const auto* fault = find_field(kFaultFields, assignment.name)) {
            return store(*fault, assignment.value, parameters.faults);
        }
        return invalid("there is no parameter '", piece, "'; there are ", names_of(kFields),
                       ", ops, ", names_of(kFaultFields), ", each with a value");
    }));
    if (parameters.max_buffer == 0) parameters.max_buffer = parameters.memory;
    if (parameters.hosts > parameters.devices) {
        return invalid("hosts=", parameters.hosts, " for ", parameters.devices, " devices");
    }
    return parameters;
}

}  // namespace heddle::sim
