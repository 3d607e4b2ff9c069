#include "train/opt/dataset.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "runtime/alloc/context_allocator.hpp"
#include "runtime/host_buffer.hpp"
#include "runtime/transfer.hpp"

using namespace heddle;

namespace {

Result<> check_shape(const Dataset::Shape& shape) {
    if (shape.point < 1) return invalid("dataset: points of ", shape.point, " numbers");
    if (shape.label < 0) return invalid("dataset: labels of ", shape.label, " numbers");
    if (shape.points < 1) return invalid("dataset: ", shape.points, " points");
    if (shape.shard < 1) return invalid("dataset: shards of ", shape.shard, " points");
    return ok();
}

}  // namespace

Result<std::unique_ptr<Dataset>> ggml_opt_dataset::make(const Shape& shape) {
    HEDDLE_TRY(check_shape(shape));
    auto made = std::make_unique<Dataset>();
    made->shape_ = shape;
    HEDDLE_TRY_ASSIGN(made->context_, make_context(2 * kTensorOverhead, nullptr, true));
    const auto table = [&](Type type, std::int64_t numbers) {
        return new_tensor(*made->context_, type, std::array{numbers, shape.points});
    };
    HEDDLE_TRY_ASSIGN(made->data_, table(shape.data_type, shape.point));
    set_name(*made->data_, "data");
    if (shape.label > 0) {
        HEDDLE_TRY_ASSIGN(made->labels_, table(shape.label_type, shape.label));
        set_name(*made->labels_, "labels");
    }
    HEDDLE_TRY_ASSIGN(made->memory_, allocate_context(*made->context_, host_buffer_type()));
    const std::int64_t shards = shape.points / shape.shard;
    const auto in_shard = static_cast<std::size_t>(std::min(shape.shard, shape.points));
    made->data_shard_ = made->data_->nb[1] * in_shard;
    if (made->labels_ != nullptr) made->label_shard_ = made->labels_->nb[1] * in_shard;
    made->order_.resize(static_cast<std::size_t>(shards));
    std::iota(made->order_.begin(), made->order_.end(), 0);
    return made;
}

Result<> ggml_opt_dataset::shuffle(std::mt19937& random, std::int64_t points) {
    if (points > shape_.points) {
        return invalid("shuffle: the first ", points, " of ", shape_.points, " points");
    }
    auto end = order_.end();
    if (points >= 0) {
        if (points % shape_.shard != 0) {
            return invalid("shuffle: ", points, " points are not a whole number of shards of ",
                           shape_.shard);
        }
        end = order_.begin() + points / shape_.shard;
    }
    std::shuffle(order_.begin(), end, random);
    return ok();
}

// ---- batches -----------------------------------------------------------------------------------

Result<> ggml_opt_dataset::check_labels(bool given) const {
    if (given == (labels_ != nullptr)) return ok();
    return invalid(given ? "batch: labels are wanted from a dataset without labels"
                         : "batch: the dataset has labels, and nowhere to put them is given");
}

Result<> ggml_opt_dataset::check_tensors(const Tensor& data, const Tensor* labels) const {
    HEDDLE_TRY(check_labels(labels != nullptr));
    const auto check = [](const Tensor& batch, const Tensor& source) -> Result<> {
        if (!is_contiguous(batch)) return invalid("batch: ", describe(batch), " is not contiguous");
        if (batch.type == source.type) return ok();
        return invalid("batch: ", describe(batch), " has another type than the dataset's ",
                       describe(source));
    };
    HEDDLE_TRY(check(data, *data_));
    if (labels == nullptr) return ok();
    HEDDLE_TRY(check(*labels, *labels_));
    // Points and labels must be as many as each other.
    const std::size_t points = byte_size(data) / data_->nb[1];
    if (byte_size(*labels) == points * labels_->nb[1]) return ok();
    return invalid("batch: ", describe(*labels), " does not hold the labels of ", points,
                   " points of ", shape_.label, " numbers each");
}

Result<ggml_opt_dataset::Range> ggml_opt_dataset::find_batch(std::size_t data_bytes,
                                                             std::int64_t batch) const {
    if (data_bytes == 0 || data_bytes % data_shard_ != 0) {
        return invalid("batch: ", data_bytes, " bytes are not a whole number of shards of ",
                       data_shard_, " bytes");
    }
    const std::size_t shards = data_bytes / data_shard_;
    const std::size_t batches = order_.size() / shards;
    if (batch < 0 || static_cast<std::size_t>(batch) >= batches) {
        return invalid("batch: number ", batch, " of ", batches, " batches of ", shards,
                       " shards each");
    }
    const std::size_t begin = static_cast<std::size_t>(batch) * shards;
    return Range{begin, begin + shards};
}

const std::byte* ggml_opt_dataset::shard_of(const Tensor& tensor, std::size_t bytes,
                                            std::size_t place) const {
    return static_cast<const std::byte*>(tensor.data) +
           static_cast<std::size_t>(order_[place]) * bytes;
}

Result<> ggml_opt_dataset::copy_batch(Tensor& data, Tensor* labels, std::int64_t batch) const {
    HEDDLE_TRY(check_tensors(data, labels));
    HEDDLE_TRY_ASSIGN(const Range range, find_batch(byte_size(data), batch));
    for (std::size_t i = range.begin; i < range.end; ++i) {
        const std::size_t place = i - range.begin;
        HEDDLE_TRY(
            write_tensor(data, shard_of(*data_, data_shard_, i), place * data_shard_, data_shard_));
        if (labels == nullptr) continue;
        HEDDLE_TRY(write_tensor(*labels, shard_of(*labels_, label_shard_, i), place * label_shard_,
                                label_shard_));
    }
    return ok();
}

Result<> ggml_opt_dataset::copy_batch(void* data, std::size_t data_bytes, void* labels,
                                      std::int64_t batch) const {
    HEDDLE_TRY(check_labels(labels != nullptr));
    HEDDLE_TRY_ASSIGN(const Range range, find_batch(data_bytes, batch));
    auto* data_to = static_cast<std::byte*>(data);
    auto* labels_to = static_cast<std::byte*>(labels);
    for (std::size_t i = range.begin; i < range.end; ++i, data_to += data_shard_) {
        std::memcpy(data_to, shard_of(*data_, data_shard_, i), data_shard_);
        if (labels == nullptr) continue;
        std::memcpy(labels_to, shard_of(*labels_, label_shard_, i), label_shard_);
        labels_to += label_shard_;
    }
    return ok();
}

Result<> ggml_opt_dataset::check_batches(const Tensor& data, const Tensor* labels,
                                         std::int64_t batches) const {
    HEDDLE_TRY(check_tensors(data, labels));
    if (batches < 1) return ok();
    HEDDLE_TRY(find_batch(byte_size(data), batches - 1));
    return ok();
}
