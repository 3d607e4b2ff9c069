#include "model/cut.hpp"

#include <algorithm>
#include <array>
#include <numeric>

namespace heddle::tool {
namespace {

// ---- which tensor is cut, and how --------------------------------------------------------------

/// Rows of the first matrices are cut and columns of the second ones, whose products are addends.
/// What is not listed is the same on all devices.
struct Row {
    std::string_view kind;
    ggml_backend_meta_split_axis axis;
    std::vector<std::int64_t> Cut::*shares;
};
constexpr Row kRows[] = {
    {"attn_q.weight", GGML_BACKEND_SPLIT_AXIS_1, &Cut::queries},
    {"attn_q.bias", GGML_BACKEND_SPLIT_AXIS_0, &Cut::queries},
    {"attn_k.weight", GGML_BACKEND_SPLIT_AXIS_1, &Cut::key_heads},
    {"attn_k.bias", GGML_BACKEND_SPLIT_AXIS_0, &Cut::key_heads},
    {"attn_v.weight", GGML_BACKEND_SPLIT_AXIS_1, &Cut::key_heads},
    {"attn_v.bias", GGML_BACKEND_SPLIT_AXIS_0, &Cut::key_heads},
    {"keys", GGML_BACKEND_SPLIT_AXIS_0, &Cut::key_heads},
    {"values", GGML_BACKEND_SPLIT_AXIS_0, &Cut::key_heads},
    {"attn_output.weight", GGML_BACKEND_SPLIT_AXIS_0, &Cut::queries},
    {"ffn_gate.weight", GGML_BACKEND_SPLIT_AXIS_1, &Cut::hidden},
    {"ffn_up.weight", GGML_BACKEND_SPLIT_AXIS_1, &Cut::hidden},
    {"ffn_down.weight", GGML_BACKEND_SPLIT_AXIS_0, &Cut::hidden},
    {"output.weight", GGML_BACKEND_SPLIT_AXIS_1, &Cut::words},
};

/// "attn_q.weight" for "blk.3.attn_q.weight", "keys" for "keys_3".
std::string_view kind_of(std::string_view name) {
    if (name.starts_with("blk.")) return name.substr(name.find('.', 4) + 1);
    if (name.starts_with("keys_") || name.starts_with("values_")) {
        return name.substr(0, name.find('_'));
    }
    return name;
}

ggml_backend_meta_split_state state_of(const ggml_tensor* tensor, void* cut) {
    ggml_backend_meta_split_state state{};
    state.axis = GGML_BACKEND_SPLIT_AXIS_MIRRORED;
    state.n_segments = 1;
    state.nr[0] = 1;
    const auto* const row = std::ranges::find(kRows, kind_of(tensor->name), &Row::kind);
    if (row == std::end(kRows)) return state;
    state.axis = row->axis;
    std::ranges::copy(static_cast<const Cut*>(cut)->*row->shares, state.ne);
    return state;
}

// ---- shares ------------------------------------------------------------------------------------

std::vector<std::int64_t> even_shares(std::int64_t extent, std::int64_t piece, std::size_t count) {
    const auto all = static_cast<std::int64_t>(count);
    const std::int64_t pieces = extent / piece;
    std::vector<std::int64_t> shares;
    for (std::int64_t i = 0; i < all; ++i) {
        shares.push_back((pieces * (i + 1) / all - pieces * i / all) * piece);
    }
    shares.back() += extent % piece;
    return shares;
}

std::vector<std::int64_t> times(std::vector<std::int64_t> shares, std::int64_t factor) {
    for (std::int64_t& share : shares) share *= factor;
    return shares;
}

/// The fewest columns that end with a block in all layers' matrices of a kind.
std::int64_t block_of(const ModelFile& model, std::string_view kind) {
    std::int64_t columns = 1;
    for (ggml_tensor* t = ggml_get_first_tensor(model.tensors()); t != nullptr;
         t = ggml_get_next_tensor(model.tensors(), t)) {
        if (kind_of(t->name) == kind) columns = std::lcm(columns, ggml_blck_size(t->type));
    }
    return columns;
}

Result<std::vector<std::int64_t>> shares_of(const ModelFile& model, const char* what,
                                            std::int64_t extent, std::int64_t piece,
                                            std::size_t count) {
    if (extent / piece >= static_cast<std::int64_t>(count))
        return even_shares(extent, piece, count);
    return failure(Errc::unsupported, "--join: ", model.path(), " cannot be cut over ", count,
                   " devices: it has ", extent, ' ', what, ", of which each needs at least ", piece,
                   piece > 1 ? " to have whole blocks" : "");
}

// ---- devices -----------------------------------------------------------------------------------

std::string names_of(const std::vector<Room>& rooms) {
    std::string names;
    for (const Room& room : rooms) names += (names.empty() ? "" : ", ") + room.device.name();
    return names;
}

/// Whether `device` keeps what it is given.
Result<> check_memory(const Device& device) {
    HEDDLE_TRY_ASSIGN(Context context, Context::make_store(1));
    constexpr std::array<float, 4> kWritten{0.5f, 1.5f, 2.5f, 3.5f};
    const Tensor tensor = context.tensor(GGML_TYPE_F32, {kWritten.size()}, "question");
    HEDDLE_TRY(context.check());
    HEDDLE_TRY_ASSIGN(const Buffer buffer, Buffer::for_all(context, device));
    HEDDLE_TRY(write<float>(tensor, kWritten));
    HEDDLE_TRY_ASSIGN(const std::vector<float> read, heddle::read<float>(tensor));
    if (std::ranges::equal(read, kWritten)) return ok();
    return failure(Errc::device, device.name(), ": gives back other values than it was given");
}

}  // namespace

double largest_part(const Cut& cut) {
    const auto part = [](const std::vector<std::int64_t>& shares) {
        const auto all = std::accumulate(shares.begin(), shares.end(), std::int64_t{0});
        return static_cast<double>(std::ranges::max(shares)) / static_cast<double>(all);
    };
    return std::max(part(cut.queries), part(cut.hidden));
}

Result<Cut> cut_of(const ModelFile& model, const std::vector<Device>& devices) {
    HEDDLE_TRY_ASSIGN(const Shape shape, Shape::read(model));
    Cut cut{.devices = devices, .queries = {}, .key_heads = {}, .hidden = {}, .words = {}};
    const std::size_t count = devices.size();
    // Each head of keys serves some queries, which stay with it.
    const std::int64_t together = shape.heads / shape.kv_heads * shape.head_width;
    const std::int64_t block = block_of(model, "attn_output.weight");
    HEDDLE_TRY_ASSIGN(const auto heads, shares_of(model, "heads of keys and values", shape.kv_heads,
                                                  block / std::gcd(block, together), count));
    cut.key_heads = times(heads, shape.head_width);
    cut.queries = times(heads, together);
    HEDDLE_TRY_ASSIGN(cut.hidden, shares_of(model, "hidden elements", shape.hidden,
                                            block_of(model, "ffn_down.weight"), count));
    cut.words = even_shares(shape.words, 1, count);
    return cut;
}

Result<Room> joined_room(const ModelFile& model, const std::vector<Room>& rooms) {
    if (rooms.size() < 2 || rooms.size() > GGML_BACKEND_META_MAX_DEVICES) {
        return invalid("--join: 2 to ", GGML_BACKEND_META_MAX_DEVICES,
                       " devices can be joined, not ", rooms.size(),
                       rooms.empty() ? "" : " (" + names_of(rooms) + ")",
                       "; --device and --hosts choose them");
    }
    std::vector<Device> devices;
    std::vector<ggml_backend_dev_t> raw;
    for (const Room& room : rooms) {
        devices.push_back(room.device);
        raw.push_back(room.device.c());
    }
    HEDDLE_TRY_ASSIGN(Cut made, cut_of(model, devices));
    auto cut = std::make_shared<Cut>(std::move(made));
    ggml_backend_dev_t joined = detail::call(
        [&] { return ggml_backend_meta_device(raw.data(), raw.size(), state_of, cut.get()); });
    if (joined == nullptr) return detail::last_failure(Errc::device, "devices cannot be joined");
    return Room{.device = Device(joined), .cut = std::move(cut)};
}

std::vector<std::string> joined_names(const std::vector<Room>& rooms,
                                      const std::vector<std::string>& places) {
    std::vector<std::string> names;
    for (const Room& room : rooms) {
        const bool is_used = std::ranges::find(places, room.device.name()) != places.end();
        if (room.cut == nullptr || !is_used) continue;
        for (const Device& device : room.cut->devices) names.push_back(device.name());
    }
    return names;
}

std::vector<Fault> faults_among(const std::vector<Device>& devices, const std::string& message) {
    // "MPI1:CUDA0: " does not name CUDA0.
    const auto is_named = [&](const Device& device) {
        return (" " + message).find(" " + device.name() + ": ") != std::string::npos;
    };
    std::vector<Fault> faults;
    for (const Device& device : devices) {
        const auto kept = check_memory(device);
        if (!kept) {
            faults.push_back({device, is_named(device) ? message : kept.error().message});
        }
    }
    if (!faults.empty()) return faults;
    for (const Device& device : devices) {
        if (is_named(device)) faults.push_back({device, message});
    }
    if (!faults.empty()) return faults;
    for (const Device& device : devices) faults.push_back({device, message});
    return faults;
}

}  // namespace heddle::tool
