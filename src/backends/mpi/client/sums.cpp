#include "backends/mpi/client/sums.hpp"

#include <algorithm>

namespace heddle::mpi {

std::unique_ptr<RemoteSums> RemoteSums::make(std::span<const ggml_backend_t> streams) {
    auto sums = std::make_unique<RemoteSums>();
    if (streams.empty() || streams.size() > kMostMembers) return nullptr;
    for (const ggml_backend_t each : streams) {
        RemoteStream* const stream = remote_stream(each);
        if (stream == nullptr) return nullptr;
        const auto is_beside = [&](const RemoteStream* other) {
            return &other->device().cluster() != &stream->device().cluster() ||
                   other->device().rank() == stream->device().rank();
        };
        if (std::ranges::any_of(sums->streams_, is_beside)) return nullptr;
        sums->streams_.push_back(stream);
        sums->numbers_.push_back(stream->number());
    }
    if (sums->cluster().settings().sums == SumsBy::mpi) sums->form_group();
    return sums;
}

void RemoteSums::form_group() {
    std::vector<int> ranks;
    for (const RemoteStream* stream : streams_) ranks.push_back(stream->device().rank());
    auto group = cluster().group_of(ranks);
    if (group) {
        group_ = *group;
        return;
    }
    plugin::log(GGML_LOG_LEVEL_WARN,
                text(group.error().message, "; sums are added in the order of devices"));
}

bool RemoteSums::add_up(std::span<Tensor* const> tensors) {
    const auto adds = [](const Tensor* tensor) {
        return (tensor->flags & GGML_TENSOR_FLAG_COMPUTE) != 0;
    };
    const Tensor& first = *tensors.front();
    if (std::ranges::none_of(tensors, adds)) return false;
    std::vector<Record> places;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        const Tensor& tensor = *tensors[i];
        const auto place = streams_[i]->locate(tensor, 0, byte_size(tensor));
        if (!place || tensor.type != GGML_TYPE_F32 || !is_contiguous(tensor) ||
            !same_layout(tensor, first)) {
            return false;
        }
        places.push_back(*place);
    }
    const std::uint32_t tag = cluster().next_number();
    const auto command = [&](std::size_t i) {
        ByteWriter out = streams_[i]->command(Kind::sum, 256 + 5 * streams_.size());
        out.put(tag);
        out.put(group_ != nullptr ? group_->number : std::uint32_t{0});
        out.put(group_ != nullptr ? group_->turns : std::uint64_t{0});
        put_record(out, places[i]);
        out.put(static_cast<std::uint32_t>(streams_.size()));
        for (std::size_t j = 0; j < streams_.size(); ++j) {
            out.put(static_cast<std::uint32_t>(streams_[j]->device().rank()));
            out.put(static_cast<std::uint8_t>(adds(tensors[j]) ? 1 : 0));
        }
        // All can be told of this turn: what comes next is another one.
        if (group_ != nullptr && i + 1 == streams_.size()) ++group_->turns;
        return seal(std::move(out));
    };
    // Of a lost worker: the others are told that nothing comes from it, and fail.
    auto sent = cluster().issue_to_all(numbers_, command);
    if (!sent) plugin::report(std::move(sent).error().within("sum"));
    return true;
}

}  // namespace heddle::mpi
