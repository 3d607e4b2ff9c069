#pragma once

#include <list>
#include <memory>

#include "runtime/meta/plan.hpp"
#include "runtime/meta/stream_group.hpp"

namespace heddle::meta {

/// A stream over all devices of a joined one. What is queued here is queued on all of them; they
/// work at the same time, and wait for each other where sums are put together.
class JoinedStream {
public:
    static inline ::ggml_guid guid = {0x6d, 0xc1, 0x0f, 0x5e, 0x92, 0x37, 0x4b, 0xe8,
                                      0xa4, 0x70, 0x1d, 0xd9, 0x3b, 0x86, 0x5c, 0xf2};

    static Result<std::unique_ptr<JoinedStream>> make(JoinedDevice& device, const char* params);
    ~JoinedStream();
    JoinedStream(const JoinedStream&) = delete;
    JoinedStream& operator=(const JoinedStream&) = delete;

    Result<> compute(Graph& graph);
    Result<> synchronize();
    Result<> write_async(Tensor& tensor, std::size_t offset, std::span<const std::byte> bytes);
    Result<> read_async(const Tensor& tensor, std::size_t offset, std::span<std::byte> bytes);

    const StreamGroup& group() const { return *group_; }

private:
    JoinedStream(JoinedDevice& device, std::unique_ptr<StreamGroup> group)
        : device_(device), group_(std::move(group)) {}

    Result<Plan*> plan_for(const Graph& graph);

    JoinedDevice& device_;
    std::unique_ptr<StreamGroup> group_;
    std::list<std::unique_ptr<Plan>> plans_;  ///< the one used last comes first
};

/// The joined stream behind an object; null for any other.
JoinedStream* joined(Stream* stream);

}  // namespace heddle::meta
