#pragma once

#include <span>

#include "backends/cpu/plan.hpp"

/// How steps that are bound together are computed.
namespace heddle::cpu {

/// Steps bound by rows, at most.
inline constexpr std::size_t kMostBound = 6;

/// A gate that is told which node failed.
class NodeGate : public Gate {
public:
    virtual void fail_in(const Tensor& node, std::string message) = 0;

protected:
    ~NodeGate() = default;
};

/// Computes this task's share of steps that are bound by rows.
void run_rows(std::span<const Step> steps, const Task& task, NodeGate& gate);

}  // namespace heddle::cpu
