#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <string>
#include <string_view>

#include "sched/explain/json_writer.hpp"
#include "sched/explain/schedule.hpp"
#include "sched/explain/words.hpp"

namespace heddle::sched {
namespace {

using testing::HasSubstr;
using testing::Not;

/// Reads JSON by its grammar: whether a text is JSON, and nothing else.
class JsonChecker {
public:
    static bool accepts(std::string_view text) {
        JsonChecker checker{text};
        return checker.value() && (checker.skip_space(), checker.rest_.empty());
    }

private:
    explicit JsonChecker(std::string_view text) : rest_(text) {}

    void skip_space() {
        while (!rest_.empty() && std::isspace(static_cast<unsigned char>(rest_.front()))) {
            rest_.remove_prefix(1);
        }
    }
    bool take(std::string_view token) {
        skip_space();
        if (rest_.substr(0, token.size()) != token) return false;
        rest_.remove_prefix(token.size());
        return true;
    }
    bool value() {
        if (take("{")) return items("}", [this] { return string() && take(":") && value(); });
        if (take("[")) return items("]", [this] { return value(); });
        if (take("true") || take("false") || take("null")) return true;
        return !rest_.empty() && (rest_.front() == '"' ? string() : number());
    }
    bool items(std::string_view end, auto&& item) {
        if (take(end)) return true;
        do {
            if (!item()) return false;
        } while (take(","));
        return take(end);
    }
    bool string() {
        if (!take("\"")) return false;
        while (!rest_.empty() && rest_.front() != '"') {
            if (rest_.front() == '\\') {
                rest_.remove_prefix(1);
                if (rest_.empty()) return false;
                const std::size_t digits = rest_.front() == 'u' ? 4 : 0;
                if (digits == 0 &&
                    std::string_view("\"\\/bfnrt").find(rest_.front()) == std::string_view::npos) {
                    return false;
                }
                if (rest_.size() < digits + 1) return false;
                rest_.remove_prefix(digits);
            } else if (static_cast<unsigned char>(rest_.front()) < 0x20) {
                return false;
            }
            const std::size_t length = utf8_length(rest_);
            if (length == 0) return false;
            rest_.remove_prefix(length);
        }
        return take("\"");
    }
    bool number() {
        const std::size_t length = rest_.find_first_not_of("+-.0123456789eE");
        if (length == 0) return false;
        rest_.remove_prefix(length == std::string_view::npos ? rest_.size() : length);
        return true;
    }

    std::string_view rest_;
};

Schedule::Node node(const char* name, const char* op, int device, int split,
                    std::vector<int> sources, double start, double end) {
    Schedule::Node made;
    made.name = name, made.op = op, made.type = "f32";
    made.shape = {64, 32}, made.size = 8192;
    made.device = device, made.split = split, made.sources = std::move(sources);
    made.rule = "weight", made.because = "wg", made.why = words::reason(Rule::weight, "wg");
    made.predicted_start = start, made.predicted_end = end;
    return made;
}

/// Two splits on two devices: a = f(wg, x) on SIM0, d = g(a) on the CPU.
Schedule sample() {
    Schedule made;
    made.policy = "rules", made.cost_origin = "assumed";
    made.predicted_seconds = 7e-6, made.measured_seconds = 9e-6;
    made.steps = 5;
    made.devices = {{.name = "SIM0",
                     .device = "SIM0",
                     .description = "simulated accelerator",
                     .memory_type = "SIM0",
                     .is_async = true,
                     .free = 1 << 30,
                     .total = 4u << 30,
                     .planned = 16384},
                    {.name = "CPU",
                     .device = "CPU",
                     .description = "the host",
                     .memory_type = "CPU",
                     .planned = 8192}};
    made.nodes = {node("a", "MUL_MAT", 0, 0, {3, 4}, 2e-6, 3e-6),
                  node("b", "SILU", 0, 0, {0}, 3e-6, 4e-6),
                  node("d", "SILU", 1, 1, {1}, 5e-6, 7e-6)};
    made.nodes[2].declined = {{.device = 0, .reason = "no kernel for it"}};
    made.leafs = {{.name = "wg",
                   .type = "f32",
                   .shape = {64, 64},
                   .device = 0,
                   .rule = "own_memory",
                   .size = 16384},
                  {.name = "x",
                   .type = "f32",
                   .shape = {64, 32},
                   .device = 1,
                   .rule = "input",
                   .size = 8192}};
    made.splits = {{.device = 0, .nodes = {0, 1}, .copies = {0}},
                   {.device = 1, .nodes = {2}, .copies = {1}}};
    made.copies = {{.tensor = "x",
                    .name = "SIM0#x#0",
                    .kind = "input",
                    .source = 4,
                    .from = 1,
                    .to = 0,
                    .split = 0,
                    .bytes = 8192},
                   {.tensor = "b",
                    .name = "CPU#b#0",
                    .kind = "value",
                    .source = 1,
                    .from = 0,
                    .to = 1,
                    .split = 1,
                    .bytes = 8192}};
    const auto action = [](const char* kind, const char* queue, int device, int index,
                           std::vector<int> waits, int first, int last, double start, double end) {
        return Schedule::ActionInfo{.kind = kind,
                                    .queue = queue,
                                    .device = device,
                                    .index = index,
                                    .waits = std::move(waits),
                                    .first_step = first,
                                    .last_step = last,
                                    .predicted_start = start,
                                    .predicted_end = end,
                                    .measured_start = start,
                                    .measured_end = end + 1e-6,
                                    .measured = true};
    };
    made.actions = {action("copy", "upload", 0, 0, {}, 0, 0, 0, 2e-6),
                    action("compute", "compute", 0, 0, {0}, 1, 2, 2e-6, 4e-6),
                    action("copy", "download", 0, 1, {1}, 3, 3, 4e-6, 5e-6),
                    action("compute", "compute", 1, 1, {2}, 4, 4, 5e-6, 7e-6)};
    made.memory = {
        {.device = 0, .offset = 0, .size = 8192, .first = 0, .last = 1, .tensors = "SIM0#x#0"},
        {.device = 0, .offset = 8192, .size = 8192, .first = 1, .last = 3, .tensors = "a, b"}};
    return made;
}

TEST(Words, SizesAndTimesHaveThreeDigits) {
    EXPECT_EQ(words::bytes(0), "0 B");
    EXPECT_EQ(words::bytes(1023), "1023 B");
    EXPECT_EQ(words::bytes(1536), "1.50 KiB");
    EXPECT_EQ(words::bytes(1023 * 1024), "1.00 MiB");
    EXPECT_EQ(words::bytes(std::size_t{125} << 30), "125 GiB");
    EXPECT_EQ(words::seconds(0), "0");
    EXPECT_EQ(words::seconds(2.5e-9), "2.50 ns");
    EXPECT_EQ(words::seconds(99.99e-6), "100 us");
    EXPECT_EQ(words::seconds(0.9999), "1.00 s");
    EXPECT_EQ(words::seconds(12345), "12345 s");
}

TEST(Words, EveryRuleHasASentenceOfItsOwn) {
    std::vector<std::string> sentences;
    for (std::size_t i = 0; i < kRuleCount; ++i) {
        sentences.push_back(words::reason(static_cast<Rule>(i), "w"));
        EXPECT_FALSE(sentences.back().empty()) << "rule " << i;
    }
    std::sort(sentences.begin(), sentences.end());
    EXPECT_EQ(std::unique(sentences.begin(), sentences.end()), sentences.end());
}

TEST(Words, DevicesHaveColoursEvenIfThereAreMoreThanColours) {
    for (int device = -1; device < 40; ++device) EXPECT_EQ(words::color(device).size(), 7u);
    EXPECT_NE(words::color(0), words::color(1));
}

TEST(Json, EveryByteCanBeInAString) {
    std::string all;
    for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
    JsonWriter json;
    json.value(all);
    EXPECT_TRUE(JsonChecker::accepts(json.text())) << json.text();
    EXPECT_THAT(json.text(), HasSubstr("\\u0000\\u0001"));
    EXPECT_THAT(json.text(), HasSubstr("\\\"#"));
    EXPECT_THAT(json.text(), HasSubstr("[\\\\]"));
    EXPECT_THAT(json.text(), HasSubstr("\\ufffd"));
}

TEST(Json, CharactersStayAndBrokenOnesDoNot) {
    JsonWriter json;
    json.value(
        "gr\xC3\xB6\xC3\x9F"
        "e \xF0\x9F\xA7\xB5 \xC3 \xED\xA0\x80 \xC0\xAF");
    EXPECT_EQ(json.text(),
              "\"gr\xC3\xB6\xC3\x9F"
              "e \xF0\x9F\xA7\xB5 \\ufffd \\ufffd\\ufffd\\ufffd "
              "\\ufffd\\ufffd\"");
}

TEST(Json, NumbersReadBackAsTheyWere) {
    JsonWriter json;
    json.begin_array().value(0.1).value(1e-300).value(std::numeric_limits<double>::infinity());
    json.value(std::nan("")).value(-7).value(std::uint64_t{18446744073709551615u}).value(true);
    json.end_array();
    EXPECT_EQ(json.text(), "[0.1,1e-300,null,null,-7,18446744073709551615,true]");
}

TEST(Explain, JsonIsJsonAndHasItsKeysInTheirOrder) {
    const std::string json = to_json(sample());
    EXPECT_TRUE(JsonChecker::accepts(json)) << json;
    std::size_t at = 0;
    for (const char* key : {"\"format\":\"heddle-schedule\"", "\"version\":1", "\"policy\"",
                            "\"devices\"", "\"nodes\"", "\"leafs\"", "\"splits\"", "\"copies\"",
                            "\"detours\"", "\"actions\"", "\"memory\"", "\"hazards\""}) {
        const std::size_t found = json.find(key, at);
        ASSERT_NE(found, std::string::npos) << key << " after byte " << at << " of\n" << json;
        at = found;
    }
    EXPECT_EQ(json, to_json(sample()));
}

TEST(Explain, AnEmptyScheduleCanBeWritten) {
    const Schedule nothing;
    EXPECT_TRUE(JsonChecker::accepts(to_json(nothing)));
    EXPECT_TRUE(JsonChecker::accepts(to_trace(nothing)));
    EXPECT_THAT(to_text(nothing), HasSubstr("0 nodes"));
    EXPECT_THAT(to_dot(nothing), HasSubstr("digraph"));
    EXPECT_THAT(to_html(nothing), HasSubstr("\"heddle-schedule\""));
}

TEST(Explain, TextHasATableForEachStage) {
    const std::string text = to_text(sample());
    EXPECT_THAT(text, HasSubstr("3 nodes in 2 splits on 2 devices, 2 copies (16.0 KiB each run)"));
    EXPECT_THAT(text, HasSubstr("placed by rules; predicted 7.00 us (speeds assumed), measured "
                                "9.00 us: 1.29 times as long"));
    EXPECT_THAT(text, HasSubstr("begins  predicted  measured  ratio\n"));
    EXPECT_THAT(text, HasSubstr("2.00 us   3.00 us   1.50\n"));
    EXPECT_THAT(text, HasSubstr("split  device  nodes  from  to  inputs\n"
                                "    0  SIM0        2  a     b   x (8.00 KiB)\n"
                                "    1  CPU         1  d     d   b (8.00 KiB)\n"));
    EXPECT_THAT(text, HasSubstr("     2  copy b   SIM0 download  1"));
    EXPECT_THAT(text, HasSubstr("1 to 3  a, b\n"));
    EXPECT_THAT(text, Not(HasSubstr(" \n")));
}

TEST(Explain, NodesComeWithReasonsAndRefusals) {
    const std::string text = nodes_to_text(sample());
    EXPECT_THAT(text, HasSubstr("weight 'wg' is there"));
    EXPECT_THAT(text, HasSubstr("SIM0: no kernel for it"));
}

TEST(Explain, DotHasABoxForEachSplitAndMarksCopies) {
    Schedule schedule = sample();
    schedule.nodes[0].name = "a \"quoted\"\\ \xFF";
    const std::string dot = to_dot(schedule);
    EXPECT_THAT(dot, HasSubstr("subgraph cluster_1"));
    EXPECT_THAT(dot, HasSubstr("\"a \\\"quoted\\\"\\\\ \xEF\xBF\xBD\\nMUL_MAT [64, 32]\""));
    EXPECT_THAT(dot, HasSubstr("n1 -> n2 [style=bold"));
    EXPECT_THAT(dot, HasSubstr("l1 -> n0 [style=bold"));  // x
    EXPECT_THAT(dot, HasSubstr("l0 -> n0;"));             // wg is there
}

TEST(Explain, TraceHasATrackForEachQueuePredictedAndMeasured) {
    const std::string trace = to_trace(sample());
    EXPECT_TRUE(JsonChecker::accepts(trace)) << trace;
    EXPECT_THAT(trace, HasSubstr("{\"name\":\"SIM0 download\"}"));
    EXPECT_THAT(trace,
                HasSubstr(R"({"ph":"X","pid":1,"tid":1,"name":"split 0","cat":"compute","ts":2)"));
    EXPECT_THAT(trace, HasSubstr(R"({"ph":"X","pid":2,"tid":5,"name":"split 1")"));
    EXPECT_THAT(trace, HasSubstr(R"({"ph":"s",)"));  // arrows of waits
    Schedule unmeasured = sample();
    unmeasured.measured_seconds = 0;
    EXPECT_THAT(to_trace(unmeasured), Not(HasSubstr("\"pid\":2")));
}

TEST(Explain, TraceHasAProcessForEachOtherOneAndArrowsForTransfers) {
    Schedule schedule = sample();
    schedule.spans = {{"rank 1 on n1", "stream 3", "send", 1e-6, 2e-6, 1e-7, 9, true},
                      {"rank 2 on n2", "stream 4", "receive", 1e-6, 3e-6, 1e-7, 9, false},
                      {"rank 1 on n1", "stream 5", "compute", 4e-6, 5e-6, 1e-7, 0, false}};
    const std::string trace = to_trace(schedule);
    EXPECT_TRUE(JsonChecker::accepts(trace)) << trace;
    EXPECT_THAT(trace, HasSubstr(R"({"name":"rank 1 on n1"})"));
    EXPECT_THAT(trace, HasSubstr(R"({"name":"rank 2 on n2"})"));
    EXPECT_THAT(trace, HasSubstr(R"({"ph":"X","pid":3,"tid":1,"name":"send","cat":"worker")"));
    EXPECT_THAT(trace, HasSubstr(R"({"ph":"X","pid":4,"tid":2,"name":"receive","cat":"worker")"));
    EXPECT_THAT(trace, HasSubstr(R"({"ph":"X","pid":3,"tid":3,"name":"compute","cat":"worker")"));
    EXPECT_THAT(trace, HasSubstr(R"({"ph":"s","pid":3,"tid":1,"name":"transfer")"));
    EXPECT_THAT(trace, HasSubstr(R"({"ph":"f","pid":4,"tid":2,"name":"transfer")"));
}

TEST(Explain, ThePageHoldsTheScheduleAndNothingBreaksOutOfIt) {
    Schedule schedule = sample();
    schedule.nodes[0].name = "</script><b>";
    const std::string page = to_html(schedule);
    EXPECT_THAT(page, HasSubstr("<!DOCTYPE html>"));
    EXPECT_THAT(page, HasSubstr("\\u003c/script>"));
    EXPECT_THAT(page, Not(HasSubstr("</script><b>")));
    EXPECT_THAT(page, Not(HasSubstr("@SCHEDULE@")));
    EXPECT_THAT(page, Not(HasSubstr("src=\"http")));
}

}  // namespace
}  // namespace heddle::sched
