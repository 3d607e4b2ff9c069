// What our scheduler can do beyond ggml_backend_sched_*.

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "capi/ggml_backend_boundary.hpp"
#include "capi/sched_settings.hpp"
#include "core/cache_folder.hpp"
#include "heddle/sched.h"
#include "sched/explain/schedule.hpp"
#include "sched/scheduler.hpp"

using namespace heddle;
using capi::require;

std::string capi::default_cost_file() {
    const std::string folder = cache_folder(std::getenv("XDG_CACHE_HOME"), std::getenv("HOME"));
    return folder.empty() ? folder : folder + "/costs.tsv";
}

namespace {

/// Changes a setting; false, with the sentence, if that fails.
template <class Change>
bool changed(ggml_backend_sched_t sched, std::string_view what, Change&& change) {
    return capi::value_or_false([&]() -> Result<bool> {
        HEDDLE_TRY(require(sched, what, "the scheduler"));
        HEDDLE_TRY_ASSIGN(const InUse::Use use, sched->in_use.enter());
        HEDDLE_TRY(change());
        return true;
    });
}

/// For settings that cannot fail but for a missing scheduler.
template <class Change>
void switched(ggml_backend_sched_t sched, std::string_view what, Change&& change) {
    capi::done([&]() -> Result<> {
        HEDDLE_TRY(require(sched, what, "the scheduler"));
        HEDDLE_TRY_ASSIGN(const InUse::Use use, sched->in_use.enter());
        change();
        return ok();
    });
}

bool set_budget(ggml_backend_sched_t sched, ggml_backend_t backend, sched::Budget budget) {
    return changed(sched, "memory budget", [&]() -> Result<> {
        HEDDLE_TRY(require(backend, "memory budget", "the stream"));
        return sched->set_budget(backend, budget);
    });
}

Result<std::string> written(const sched::Schedule& schedule, heddle_explain_format format) {
    switch (format) {
        case HEDDLE_EXPLAIN_JSON:
            return to_json(schedule);
        case HEDDLE_EXPLAIN_TEXT:
            return to_text(schedule);
        case HEDDLE_EXPLAIN_DOT:
            return to_dot(schedule);
        case HEDDLE_EXPLAIN_TRACE:
            return to_trace(schedule);
        case HEDDLE_EXPLAIN_HTML:
            return to_html(schedule);
    }
    return invalid("explain: there is no format number ", static_cast<int>(format));
}

}  // namespace

bool heddle_sched_set_policy(ggml_backend_sched_t sched, heddle_sched_policy policy) {
    return changed(sched, "placement policy", [&]() -> Result<> {
        switch (policy) {
            case HEDDLE_SCHED_POLICY_RULES:
                return sched->set_policy(Scheduler::Policy::rules);
            case HEDDLE_SCHED_POLICY_COST:
                return sched->set_policy(Scheduler::Policy::cost);
        }
        return invalid("placement policy: there is no number ", static_cast<int>(policy));
    });
}

bool heddle_sched_set_cost_file(ggml_backend_sched_t sched, const char* path) {
    return changed(sched, "cost file", [&] {
        return sched->set_cost_file(path != nullptr ? path : capi::default_cost_file());
    });
}

bool heddle_sched_set_budget(ggml_backend_sched_t sched, ggml_backend_t backend, size_t bytes) {
    return set_budget(sched, backend, {.kind = sched::Budget::Kind::bytes, .amount = bytes});
}

bool heddle_sched_set_leave_free(ggml_backend_sched_t sched, ggml_backend_t backend, size_t bytes) {
    return set_budget(sched, backend, {.kind = sched::Budget::Kind::leave, .amount = bytes});
}

bool heddle_sched_set_n_copies(ggml_backend_sched_t sched, int n_copies) {
    return changed(sched, "number of copies", [&] { return sched->set_slots(n_copies); });
}

void heddle_sched_set_tracing(ggml_backend_sched_t sched, bool on) {
    switched(sched, "tracing", [&] { sched->set_tracing(on); });
}

void heddle_sched_set_synchronous(ggml_backend_sched_t sched, bool on) {
    switched(sched, "synchronous runs", [&] { sched->set_synchronous(on); });
}

void heddle_sched_set_hazard_check(ggml_backend_sched_t sched, bool on) {
    switched(sched, "hazard check", [&] { sched->set_check_hazards(on); });
}

const char* heddle_sched_explain(ggml_backend_sched_t sched, heddle_explain_format format) {
    return capi::made_or_null([&]() -> Result<const char*> {
        HEDDLE_TRY(require(sched, "explain", "the scheduler"));
        HEDDLE_TRY_ASSIGN(const InUse::Use use, sched->in_use.enter());
        HEDDLE_TRY_ASSIGN(const sched::Schedule schedule, sched::explain(*sched));
        HEDDLE_TRY_ASSIGN(sched->kept_text, written(schedule, format));
        return sched->kept_text.c_str();
    });
}

bool heddle_sched_get_counts(ggml_backend_sched_t sched, heddle_sched_counts* counts, size_t size) {
    return capi::value_or_false([&]() -> Result<bool> {
        HEDDLE_TRY(require(sched, "counts", "the scheduler"));
        HEDDLE_TRY(require(counts, "counts", "the place for them"));
        const Scheduler::Counts now = sched->counts();
        const heddle_sched_counts all{.placed = now.placed,
                                      .reused = now.reused,
                                      .runs = now.runs,
                                      .copies_made = now.copies_made,
                                      .copies_skipped = now.copies_skipped};
        std::memcpy(counts, &all, std::min(size, sizeof all));
        return true;
    });
}

bool heddle_sched_is_left_out(ggml_backend_sched_t sched, ggml_backend_t backend) {
    return capi::value_or_false([&]() -> Result<bool> {
        HEDDLE_TRY(require(sched, "left out", "the scheduler"));
        HEDDLE_TRY(require(backend, "left out", "the stream"));
        const sched::RunnerId runner = sched->team().find(backend);
        if (runner == sched::kNoRunner) {
            return invalid("scheduler: left out: the stream is none of its own");
        }
        return !sched->team()[runner].available;
    });
}
