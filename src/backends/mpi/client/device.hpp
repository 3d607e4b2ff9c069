#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "backends/mpi/client/digest_offers.hpp"
#include "backends/mpi/client/files.hpp"
#include "backends/mpi/client/memory.hpp"
#include "backends/mpi/client/stream.hpp"

namespace heddle::mpi {

/// A device of a worker: "MPI2:CUDA0".
class RemoteDevice : public plugin::Device<RemoteDevice> {
public:
    RemoteDevice(ggml_backend_reg_t registration, Cluster& cluster, int rank, std::size_t index);

    const char* name() { return name_.c_str(); }
    const char* description() { return description_.c_str(); }
    const char* id() { return id_.c_str(); }
    /// Also for CPUs: programs place layers on GPUs only.
    plugin::DeviceType type() { return GGML_BACKEND_DEVICE_TYPE_GPU; }
    plugin::MemoryAmount memory() { return cluster_.memory(rank_, index_); }
    ggml_backend_buffer_type_t buffer_type() { return memories_.front()->handle(); }
    Result<std::unique_ptr<RemoteStream>> start(const char*);
    std::string_view objection(const Tensor& node);
    bool accepts(ggml_backend_buffer_type_t type) { return number_of(type) != 0; }
    std::unique_ptr<RemoteEvent> make_event() { return std::make_unique<RemoteEvent>(); }
    Result<> wait(const RemoteEvent& event);
    void describe(ggml_backend_dev_props& props);

    const std::string& shown_name() const { return name_; }
    Cluster& cluster() const { return cluster_; }
    FileOffers& files() { return files_; }
    DigestOffers& offers() { return offers_; }
    int rank() const { return rank_; }
    std::size_t index() const { return index_; }  ///< among the worker's devices
    const DeviceFacts& facts() const { return facts_; }

    /// Buffer types beside the first, for weights; ends with null.
    ggml_backend_buffer_type_t* more_buffer_types() {
        return more_types_.size() > 1 ? more_types_.data() : nullptr;
    }

    /// Bytes that a tensor takes in memory of a type, where that depends on more than its size.
    std::size_t size_of(std::size_t type, const Tensor& tensor);

private:
    /// From 1; 0 if it is not memory of this device.
    std::uint32_t number_of(ggml_backend_buffer_type_t type) const;
    /// The same, of the memory a tensor is in.
    std::uint32_t memory_number(const Tensor& tensor) const;
    /// The worker's answer about a node, kept for as long as it lives: answers do not change.
    std::string_view ask_about(const Tensor& node);

    Cluster& cluster_;
    const int rank_;
    const std::size_t index_;
    const DeviceFacts& facts_;
    const std::string name_, description_, id_;
    std::vector<std::unique_ptr<RemoteMemory>> memories_;
    std::vector<ggml_backend_buffer_type_t> more_types_;
    FileOffers files_{cluster_, rank_};
    DigestOffers offers_{cluster_, rank_};
    std::mutex lock_;
    std::unordered_map<std::string, std::string> answers_;
    std::unordered_map<std::string, std::size_t> sizes_;
};

/// The RemoteStream inside `stream`; null for streams of other kinds and for null.
RemoteStream* remote_stream(ggml_backend_t stream);

}  // namespace heddle::mpi
