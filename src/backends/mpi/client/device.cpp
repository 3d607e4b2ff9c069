#include "backends/mpi/client/device.hpp"

#include <cmath>

#include "core/root_buffer.hpp"
#include "heddle/backend/nodes.hpp"
#include "ops/custom.hpp"

namespace heddle::mpi {
namespace {

constexpr std::size_t kLongestName = 24;

std::string device_name(int rank, const std::string& name) {
    return text("MPI", rank, ':', name).substr(0, kLongestName);
}

/// ", 10.1 GB/s, 31 us"; nothing where it was not measured.
std::string words_of(const Cluster::Link& link) {
    if (link.seconds <= 0) return {};
    const auto rounded = [](double value) { return std::round(value * 10) / 10; };
    return text(", ", rounded(link.bytes_per_second * 1e-9), " GB/s, ", rounded(link.seconds * 1e6),
                " us");
}

/// What a question says, without the number that changes.
std::string key_of(const std::vector<Record>& records) {
    ByteWriter out;
    for (const Record& record : records) put_record(out, record);
    return {reinterpret_cast<const char*>(out.view().data()), out.size()};
}

void put_question(ByteWriter& out, const std::vector<Record>& records, const std::string& key) {
    out.put(static_cast<std::uint32_t>(records.size()));
    out.raw(std::as_bytes(std::span(key)));
}

}  // namespace

RemoteDevice::RemoteDevice(ggml_backend_reg_t registration, Cluster& cluster, int rank,
                           std::size_t index)
    : Device(registration),
      cluster_(cluster),
      rank_(rank),
      index_(index),
      facts_(cluster.facts(rank).devices[index]),
      name_(device_name(rank, facts_.name)),
      description_(text(facts_.description, " on ", cluster.facts(rank).host, " (rank ", rank,
                        words_of(cluster.link(rank)), ")")),
      id_(cluster.facts(rank).host + "/" + facts_.id) {
    for (std::size_t i = 0; i < facts_.buffer_types.size(); ++i) {
        memories_.push_back(std::make_unique<RemoteMemory>(handle(), *this, i));
        if (i > 0) more_types_.push_back(memories_.back()->handle());
    }
    more_types_.push_back(nullptr);
}

void RemoteDevice::describe(ggml_backend_dev_props& props) {
    if (facts_.id.empty()) props.device_id = nullptr;
    // Keeps loaders on mapped files: what they write from there, workers can read themselves.
    props.caps.mmap_support = true;
}

Result<std::unique_ptr<RemoteStream>> RemoteDevice::start(const char*) {
    const std::uint32_t number = cluster_.add_stream(rank_);
    auto stream = std::make_unique<RemoteStream>(*this, number);
    const std::uint32_t request = cluster_.next_number();
    ByteWriter out = begin({.kind = Kind::new_stream, .stream = number});
    out.put(request);
    out.put(static_cast<std::uint32_t>(index_));
    HEDDLE_TRY(cluster_.ask(rank_, request, seal(std::move(out))));
    cluster_.begin_stream(number);
    return stream;
}

Result<> RemoteDevice::wait(const RemoteEvent& event) {
    if (event.stream == 0) return ok();  // never recorded
    auto waited = cluster_.wait_for(event.stream, event.place);
    // Of a lost worker every event counts as reached: what is then read from it says so, and not
    // the device that happened to wait.
    if (!waited && cluster_.loss(event.rank)) return ok();
    return waited;
}

// ---- questions ---------------------------------------------------------------------------------

std::uint32_t RemoteDevice::number_of(ggml_backend_buffer_type_t type) const {
    for (std::size_t i = 0; i < memories_.size(); ++i) {
        if (memories_[i]->handle() == type) return static_cast<std::uint32_t>(i + 1);
    }
    return 0;
}

/// Other memory counts as none: what asks copies it first.
std::uint32_t RemoteDevice::memory_number(const Tensor& tensor) const {
    const ggml_backend_buffer* const buffer = root_buffer(tensor);
    return buffer != nullptr ? number_of(buffer->buft) : 0;
}

std::string_view RemoteDevice::objection(const Tensor& node) {
    if (cluster_.loss(rank_)) return "its worker is lost";
    if (!plugin::node_fault(node).empty()) return "it is not such a node as its op builds";
    if (ops::runs_callers_function(node.op)) return "it runs a function of this process";
    for (const Tensor* source : node.src) {
        if (source == nullptr) continue;
        const RemoteBuffer* const buffer = remote_buffer(*source);
        if (buffer != nullptr && &buffer->device() != this) {
            return "an operand is in memory of another device";
        }
    }
    return ask_about(node);
}

std::string_view RemoteDevice::ask_about(const Tensor& node) {
    const auto records =
        describe_node(node, [&](const Tensor& tensor) { return memory_number(tensor); });
    std::string key = key_of(records);
    {
        const std::lock_guard guard(lock_);
        if (const auto known = answers_.find(key); known != answers_.end()) return known->second;
    }
    const std::uint32_t request = cluster_.next_number();
    ByteWriter out = question(Kind::ask_op, request, key.size() + 64);
    out.put(static_cast<std::uint32_t>(index_));
    put_question(out, records, key);
    const auto answer = cluster_.ask(rank_, request, seal(std::move(out)));
    if (!answer) return "its worker does not answer";
    ByteReader in(*answer);
    std::string reason = in.text(256);
    const std::lock_guard guard(lock_);
    return answers_.try_emplace(std::move(key), std::move(reason)).first->second;
}

std::size_t RemoteDevice::size_of(std::size_t type, const Tensor& tensor) {
    const auto records =
        describe_node(tensor, [&](const Tensor& each) { return memory_number(each); });
    std::string key = text(type, ' ') + key_of(records);
    {
        const std::lock_guard guard(lock_);
        if (const auto known = sizes_.find(key); known != sizes_.end()) return known->second;
    }
    const std::uint32_t request = cluster_.next_number();
    ByteWriter out = question(Kind::ask_size, request, key.size() + 64);
    out.put(static_cast<std::uint32_t>(index_));
    out.put(static_cast<std::uint32_t>(type));
    put_question(out, records, key_of(records));
    const auto answer = cluster_.ask(rank_, request, seal(std::move(out)));
    if (!answer) return byte_size(tensor);  // the worker is lost, and has no memory for it anyway
    ByteReader in(*answer);
    const std::size_t size = std::max<std::size_t>(in.get<std::uint64_t>(), byte_size(tensor));
    const std::lock_guard guard(lock_);
    return sizes_.try_emplace(std::move(key), size).first->second;
}

RemoteStream* remote_stream(ggml_backend_t stream) {
    return plugin::stream_cast<RemoteDevice, RemoteStream>(stream);
}

}  // namespace heddle::mpi
