#include "runtime/meta/access.hpp"

#include <cstring>

#include "runtime/stream.hpp"
#include "runtime/transfer.hpp"

namespace heddle::meta {
namespace {

Pieces pieces_of(const Run& run) {
    return {.size = run.size,
            .count = run.count,
            .tensor_stride = run.device_stride,
            .data_stride = run.stride};
}

Pieces whole(std::size_t size) { return {.size = size, .count = 1}; }

/// One device's share of a transfer.
class Lane {
public:
    Lane(std::span<Stream* const> streams, std::size_t device)
        : stream_(streams.empty() ? nullptr : streams[device]) {}

    Result<> write(Tensor& slice, const std::byte* data, std::size_t offset,
                   const Pieces& pieces) const {
        if (stream_ == nullptr) return write_tensor(slice, data, offset, pieces);
        return write_tensor_async(*stream_, slice, data, offset, pieces);
    }
    Result<> read(const Tensor& slice, std::byte* data, std::size_t offset,
                  const Pieces& pieces) const {
        if (stream_ == nullptr) return read_tensor(slice, data, offset, pieces);
        return read_tensor_async(*stream_, slice, data, offset, pieces);
    }

private:
    Stream* stream_;
};

Result<> finish_all(std::span<Stream* const> streams) {
    for (Stream* stream : streams) HEDDLE_TRY(finish(*stream));
    return ok();
}

Result<> write_addend(Parts& parts, std::size_t offset, std::span<const std::byte> bytes) {
    HEDDLE_TRY(write_tensor(parts.slices[0], bytes.data(), offset, bytes.size()));
    for (std::size_t j = 1; j < parts.slices.size(); ++j) {
        HEDDLE_TRY(fill_tensor(parts.slices[j], 0, offset, bytes.size()));
    }
    return ok();
}

Result<> read_sum(const Tensor& root, const Parts& parts, std::size_t offset,
                  std::span<std::byte> bytes) {
    constexpr std::size_t kElement = sizeof(float);
    if (root.type != GGML_TYPE_F32 || offset % kElement != 0 || bytes.size() % kElement != 0) {
        return failure(Errc::unsupported, "reading ", heddle::describe(root),
                       ": addends on several devices are put together as whole f32 elements only");
    }
    HEDDLE_TRY(read_tensor(parts.slices[0], bytes.data(), offset, bytes.size()));
    std::vector<std::byte> addend(bytes.size());
    for (std::size_t j = 1; j < parts.slices.size(); ++j) {
        HEDDLE_TRY(read_tensor(parts.slices[j], addend.data(), offset, addend.size()));
        for (std::size_t at = 0; at < addend.size(); at += kElement) {
            float a = 0, b = 0;
            std::memcpy(&a, bytes.data() + at, kElement);
            std::memcpy(&b, addend.data() + at, kElement);
            a += b;
            std::memcpy(bytes.data() + at, &a, kElement);
        }
    }
    return ok();
}

}  // namespace

Result<> write_parts(const Tensor& root, Parts& parts, std::size_t offset,
                     std::span<const std::byte> bytes, std::span<Stream* const> streams) {
    if (parts.split.is_sum()) {
        HEDDLE_TRY(finish_all(streams));  // filling is in no stream's order
        return write_addend(parts, offset, bytes);
    }
    if (!parts.split.is_cut()) {
        for (std::size_t j = 0; j < parts.slices.size(); ++j) {
            HEDDLE_TRY(
                Lane(streams, j).write(parts.slices[j], bytes.data(), offset, whole(bytes.size())));
        }
        return ok();
    }
    HEDDLE_TRY_ASSIGN(const Layout layout, layout_of(root, parts.split));
    return for_each_run(layout, offset, bytes.size(), [&](const Run& run) {
        return Lane(streams, run.device)
            .write(parts.slices[run.device], bytes.data() + run.offset, run.device_offset,
                   pieces_of(run));
    });
}

Result<> read_parts(const Tensor& root, const Parts& parts, std::size_t offset,
                    std::span<std::byte> bytes, std::span<Stream* const> streams) {
    if (parts.split.is_sum()) {
        HEDDLE_TRY(finish_all(streams));
        return read_sum(root, parts, offset, bytes);
    }
    if (!parts.split.is_cut()) {
        return Lane(streams, 0).read(parts.slices[0], bytes.data(), offset, whole(bytes.size()));
    }
    HEDDLE_TRY_ASSIGN(const Layout layout, layout_of(root, parts.split));
    return for_each_run(layout, offset, bytes.size(), [&](const Run& run) {
        return Lane(streams, run.device)
            .read(parts.slices[run.device], bytes.data() + run.offset, run.device_offset,
                  pieces_of(run));
    });
}

Result<> fill_parts(const Tensor& root, Parts& parts, std::size_t offset, std::size_t size,
                    std::uint8_t value) {
    if (parts.split.is_sum()) {
        return write_addend(parts, offset, std::vector<std::byte>(size, std::byte{value}));
    }
    if (!parts.split.is_cut() || (offset == 0 && size == byte_size(root))) {
        for (Tensor& slice : parts.slices) {
            const bool is_all = parts.split.is_cut();
            HEDDLE_TRY(
                fill_tensor(slice, value, is_all ? 0 : offset, is_all ? byte_size(slice) : size));
        }
        return ok();
    }
    HEDDLE_TRY_ASSIGN(const Layout layout, layout_of(root, parts.split));
    return for_each_run(layout, offset, size, [&](const Run& run) -> Result<> {
        for (std::size_t i = 0; i < run.count; ++i) {
            HEDDLE_TRY(fill_tensor(parts.slices[run.device], value,
                                   run.device_offset + i * run.device_stride, run.size));
        }
        return ok();
    });
}

}  // namespace heddle::meta
