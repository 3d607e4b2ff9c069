#pragma once

#include <memory>
#include <random>
#include <vector>

#include "core/context.hpp"
#include "runtime/owned.hpp"

/// Examples to learn from, in host memory: points with their labels. Some points in a row, a shard,
/// stay together when the order is mixed; points behind the last whole shard are never handed out.
struct ggml_opt_dataset {
    struct Shape {
        heddle::Type data_type, label_type;
        std::int64_t point;   ///< numbers of one point, at least 1
        std::int64_t label;   ///< numbers of one label, may be 0
        std::int64_t points;  ///< at least 1
        std::int64_t shard;   ///< points that stay together, at least 1
    };

    /// The contents are the caller's to write.
    static heddle::Result<std::unique_ptr<ggml_opt_dataset>> make(const Shape& shape);

    std::int64_t points() const { return shape_.points; }
    heddle::Tensor& data() const { return *data_; }     ///< [point, points]
    heddle::Tensor* labels() const { return labels_; }  ///< [label, points]; null without labels

    /// Mixes the shards of the first `points` points; of all if that is negative.
    heddle::Result<> shuffle(std::mt19937& random, std::int64_t points);

    /// Copies batch number `batch`, of as many points as fit, into tensors wherever they are.
    heddle::Result<> copy_batch(heddle::Tensor& data, heddle::Tensor* labels,
                                std::int64_t batch) const;

    /// The same into host memory.
    heddle::Result<> copy_batch(void* data, std::size_t data_bytes, void* labels,
                                std::int64_t batch) const;

    /// Fails unless tensors like these can be filled `batches` times.
    heddle::Result<> check_batches(const heddle::Tensor& data, const heddle::Tensor* labels,
                                   std::int64_t batches) const;

private:
    /// Which shards a batch consists of: places in `order_`.
    struct Range {
        std::size_t begin, end;
    };
    heddle::Result<> check_tensors(const heddle::Tensor& data, const heddle::Tensor* labels) const;
    heddle::Result<> check_labels(bool given) const;
    heddle::Result<Range> find_batch(std::size_t data_bytes, std::int64_t batch) const;
    const std::byte* shard_of(const heddle::Tensor& tensor, std::size_t bytes,
                              std::size_t place) const;

    Shape shape_{};
    heddle::OwnedContext context_;
    heddle::OwnedBuffer memory_;
    heddle::Tensor *data_ = nullptr, *labels_ = nullptr;
    std::size_t data_shard_ = 0, label_shard_ = 0;  ///< bytes
    std::vector<std::int64_t> order_;               ///< numbers of shards
};

namespace heddle {

using Dataset = ::ggml_opt_dataset;

}  // namespace heddle
