#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "core/graph.hpp"
#include "runtime/buffer.hpp"
#include "runtime/meta/stream_group.hpp"

namespace heddle::meta {

/// Memory on each device for what others send. All reductions of a plan share it, one after the
/// other.
class Scratch {
public:
    explicit Scratch(JoinedDevice& device) : device_(device), buffers_(device.size()) {}

    /// Asked for before anything is placed: `size` bytes for each other device.
    void need(std::size_t size);
    Result<> allocate();

    /// Places `tensor` on `device` in the room for what device `from` sends.
    Result<> place(Tensor& tensor, std::size_t device, std::size_t from);

private:
    JoinedDevice& device_;
    std::size_t size_ = 0;
    std::vector<OwnedBuffer> buffers_;
};

/// Puts a sum together: afterwards all devices have it, with the same bits.
///
/// The devices' addends are added in the order of the devices, each by ordinary addition, so that
/// infinities and NaN come out as they should. Where a device takes no part, nothing is added. The
/// tensor is cut into parts, and each part is added up by one device, which sends it on to the
/// others; small tensors, and those of two devices, are not cut: each device adds up all of it.
class Reduction {
public:
    /// The tensors, one on each device; those that take no part are without the mark COMPUTE.
    Reduction(JoinedDevice& device, std::vector<Tensor*> tensors);

    std::size_t scratch_size() const;
    Result<> build(Scratch& scratch);
    Result<> run(StreamGroup& group);

private:
    struct Copy {
        std::size_t from, to;
        Tensor source, target;
    };
    /// Elements that one device, or each, adds up.
    struct Part {
        std::int64_t first, count;
        std::vector<std::size_t> adders;
    };

    std::vector<Part> parts() const;
    bool is_present(std::size_t device) const;
    Result<Tensor> look(std::size_t device, const Part& part);
    Result<> add_up(const Part& part, std::size_t adder, Scratch& scratch);
    Result<> add_node(std::size_t device, const Tensor& target, const Tensor& a, const Tensor& b);
    Result<> make_graphs();

    JoinedDevice& device_;
    std::vector<Tensor*> tensors_;
    std::vector<std::size_t> present_;
    std::deque<Copy> gather_, spread_;
    std::vector<std::deque<Tensor>> kept_;         ///< tensors that nodes refer to, per device
    std::vector<std::vector<Tensor*>> additions_;  ///< per device, in order
    OwnedContext context_;
    std::vector<Graph*> graphs_;
};

}  // namespace heddle::meta
