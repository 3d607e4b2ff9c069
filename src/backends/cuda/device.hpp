#pragma once

#include <memory>
#include <string_view>

#include "backends/cuda/memory.hpp"
#include "backends/cuda/stream.hpp"

namespace heddle::cuda {

/// A GPU, or a share of one.
class CudaDevice : public plugin::Device<CudaDevice> {
public:
    CudaDevice(ggml_backend_reg_t registration, Board board);

    const char* name() { return board_.name.c_str(); }
    const char* description() { return board_.description.c_str(); }
    const char* id() { return board_.id.c_str(); }
    plugin::DeviceType type();
    plugin::MemoryAmount memory();
    ggml_backend_buffer_type_t buffer_type() { return memory_.handle(); }
    ggml_backend_buffer_type_t host_buffer_type();
    Result<std::unique_ptr<CudaStream>> start(const char*) { return CudaStream::make(board_); }
    bool supports(const ggml_tensor& node);
    std::string objection(const ggml_tensor& node);
    bool accepts(ggml_backend_buffer_type_t type) { return type == memory_.handle(); }
    bool wants(const ggml_tensor& node);
    Result<std::unique_ptr<CudaEvent>> make_event() { return CudaEvent::make(board_); }
    Result<> wait(const CudaEvent& event) { return event.wait_on_host(); }
    void describe(ggml_backend_dev_props& props);

    const Board& board() const { return board_; }

private:
    bool has_foreign_operand(const ggml_tensor& node);

    const Board board_;
    CudaMemory memory_;
};

/// The CudaStream inside `stream`; null for streams of other kinds and for null.
CudaStream* cuda_stream(ggml_backend_t stream);

}  // namespace heddle::cuda
