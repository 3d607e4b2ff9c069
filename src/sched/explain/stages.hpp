#pragma once

#include "sched/explain/schedule.hpp"

/// What `explain` consists of besides reading things off.
namespace heddle::sched {

/// Speeds for teams that were never measured: what devices of their type have these days. Good
/// enough to see what overlaps with what.
CostModel assumed_costs(const Team& team);

/// Runs the program in thought: fills in the predicted times of actions and nodes.
void forecast(const Scheduler::View& view, const CostModel& model, Schedule& schedule);

/// Who has which bytes of the compute buffers at which steps.
std::vector<Schedule::BlockInfo> map_memory(const Scheduler::View& view, const Schedule& schedule);

}  // namespace heddle::sched
