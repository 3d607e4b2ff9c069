#include "golden/case_file.hpp"

#include <algorithm>
#include <filesystem>

#include "golden/metadata.hpp"

namespace heddle::golden {
namespace {

Bytes bytes_of(const Tensor& tensor) {
    const auto* begin = static_cast<const std::byte*>(tensor.data);
    return {begin, begin + byte_size(tensor)};
}

Result<Rule> rule_named(std::string_view name) {
    if (name == "nmse") return Rule::nmse;
    if (name == "nmse_dequant") return Rule::nmse_dequant;
    if (name == "exact") return Rule::exact;
    if (name == "index_set") return Rule::index_set;
    return failure(Errc::corrupt, "there is no rule of comparison '", name, "'");
}

template <class T>
Result<std::array<T, kMaxDims>> read_four(const Metadata& file, const std::string& key) {
    HEDDLE_TRY_ASSIGN(const std::vector<T> values, file.array<T>(key));
    std::array<T, kMaxDims> four{};
    if (values.size() != four.size()) {
        return failure(Errc::corrupt, "key '", key, "' has ", values.size(), " elements, not 4");
    }
    std::ranges::copy(values, four.begin());
    return four;
}

Result<Layout> read_layout(const Metadata& file, const std::string& prefix) {
    Layout layout;
    HEDDLE_TRY_ASSIGN(const std::int32_t type, file.i32(prefix + ".type"));
    layout.type = static_cast<Type>(type);
    if (!is_valid(layout.type)) return failure(Errc::corrupt, prefix, ": there is no type ", type);
    HEDDLE_TRY_ASSIGN(layout.extent, read_four<std::int64_t>(file, prefix + ".ne"));
    HEDDLE_TRY_ASSIGN(const auto stride, read_four<std::uint64_t>(file, prefix + ".nb"));
    std::ranges::copy(stride, layout.stride.begin());
    HEDDLE_TRY_ASSIGN(layout.offset, file.u64(prefix + ".offset"));
    if (auto end = end_of(layout); !end) return std::move(end).error().within(prefix);
    return layout;
}

/// Fails unless `layout` lies inside a storage of `size` bytes.
Result<> check_inside(const Layout& layout, std::size_t size, std::string_view what) {
    HEDDLE_TRY_ASSIGN(const std::size_t end, end_of(layout));
    if (end <= size) return ok();
    return failure(Errc::corrupt, what, " ends at byte ", end, " of a storage of ", size);
}

Result<Source> read_source(const Metadata& file, const std::string& prefix, int slot) {
    Source source{.slot = slot, .layout = {}, .storage_of = slot};
    HEDDLE_TRY_ASSIGN(source.layout, read_layout(file, prefix));
    if (file.has(prefix + ".init")) {
        HEDDLE_TRY_ASSIGN(source.init, file.string(prefix + ".init"));
    }
    if (file.has(prefix + ".storage_of")) {
        HEDDLE_TRY_ASSIGN(source.storage_of, file.i32(prefix + ".storage_of"));
    } else if (const Tensor* storage = file.tensor(prefix)) {
        source.storage = bytes_of(*storage);
    }
    if (const Tensor* after = file.tensor(prefix + ".after")) source.after = bytes_of(*after);
    if (source.after && source.after->size() != source.storage.size()) {
        return failure(Errc::corrupt, prefix, " has ", source.storage.size(), " bytes before and ",
                       source.after->size(), " after the run");
    }
    return source;
}

Result<std::vector<Source>> read_sources(const Metadata& file, const std::string& prefix) {
    HEDDLE_TRY_ASSIGN(const auto slots, file.array<std::int32_t>(prefix + "srcs"));
    std::vector<Source> sources;
    for (const std::int32_t slot : slots) {
        if (slot < 0 || slot >= kMaxSources) {
            return failure(Errc::corrupt, prefix, "srcs: there is no slot ", slot);
        }
        HEDDLE_TRY_ASSIGN(Source source, read_source(file, text(prefix, "src", slot), slot));
        sources.push_back(std::move(source));
    }
    return sources;
}

Result<Recorded> read_result(const Metadata& file, const std::string& prefix) {
    Recorded result;
    HEDDLE_TRY_ASSIGN(result.layout, read_layout(file, prefix));
    if (file.has(prefix + ".view_of")) {
        HEDDLE_TRY_ASSIGN(result.view_of, file.i32(prefix + ".view_of"));
    }
    const Tensor* tensor = file.tensor(prefix);
    if (tensor == nullptr) return failure(Errc::corrupt, "tensor '", prefix, "' is missing");
    result.bytes = bytes_of(*tensor);
    // A result stored with its own type and extents is the elements; all else is raw bytes.
    const bool is_raw =
        tensor->type != result.layout.type || extents_of(*tensor) != result.layout.extent;
    if (is_raw) {
        result.content = result.view_of >= 0 ? Recorded::Content::storage : Recorded::Content::span;
    }
    if (result.content == Recorded::Content::span) {
        HEDDLE_TRY(check_inside(result.layout, result.bytes.size(), prefix));
    }
    return result;
}

/// Fails unless every layout lies inside the storage it names.
Result<> check_storages(const OpCase& golden) {
    for (const Source& source : golden.sources) {
        if (source.storage_of == Source::kNodeItself) continue;
        const Source* owner = golden.source(source.storage_of);
        if (owner == nullptr || owner->storage_of != owner->slot) {
            return failure(Errc::corrupt, "slot ", source.slot, " lies in the storage of slot ",
                           source.storage_of, ", which has none");
        }
        HEDDLE_TRY(check_inside(source.layout, owner->storage.size(), text("slot ", source.slot)));
    }
    if (golden.result.view_of < 0) return ok();
    const Source* viewed = golden.source(golden.result.view_of);
    const Source* owner = viewed != nullptr ? golden.source(viewed->storage_of) : nullptr;
    if (owner == nullptr) {
        return failure(Errc::corrupt, "the result is a view of slot ", golden.result.view_of,
                       ", which has no storage");
    }
    const std::size_t size = owner->storage.size();
    if (golden.result.content == Recorded::Content::storage && golden.result.bytes.size() != size) {
        return failure(Errc::corrupt, "the result's storage has ", golden.result.bytes.size(),
                       " bytes, slot ", owner->slot, " has ", size);
    }
    return check_inside(golden.result.layout, size, "the result");
}

Result<OpCase> read_op_case(const Metadata& file, const std::string& prefix, std::string name) {
    OpCase golden;
    golden.name = std::move(name);
    HEDDLE_TRY_ASSIGN(golden.description, file.string(prefix + "desc"));
    HEDDLE_TRY_ASSIGN(golden.op, file.string(prefix + "op"));
    HEDDLE_TRY_ASSIGN(const auto params, file.array<std::int32_t>(prefix + "op_params"));
    if (params.size() != golden.params.size()) {
        return failure(Errc::corrupt, "op_params has ", params.size(), " words, not ",
                       golden.params.size());
    }
    std::ranges::copy(params, golden.params.begin());
    HEDDLE_TRY_ASSIGN(golden.sources, read_sources(file, prefix));
    HEDDLE_TRY_ASSIGN(golden.result, read_result(file, prefix + "dst"));
    HEDDLE_TRY_ASSIGN(const std::string rule, file.string(prefix + "compare"));
    HEDDLE_TRY_ASSIGN(golden.rule, rule_named(rule));
    HEDDLE_TRY_ASSIGN(golden.tolerance, file.f32(prefix + "tolerance"));
    if (file.has(prefix + "quant_nmse")) {
        HEDDLE_TRY_ASSIGN(golden.quant_nmse, file.f32(prefix + "quant_nmse"));
    }
    HEDDLE_TRY(check_storages(golden));
    return golden;
}

/// The tensors whose numbers key `list` has, named c0.t<number><suffix>.
Result<std::vector<GraphTensor>> read_tensors(const Metadata& file, const std::string& prefix,
                                              std::string_view list, std::string_view suffix) {
    std::vector<GraphTensor> tensors;
    const std::string key = text(prefix, list);
    if (!file.has(key)) return tensors;
    HEDDLE_TRY_ASSIGN(const auto numbers, file.array<std::int32_t>(key));
    for (const std::int32_t number : numbers) {
        const std::string name = text(prefix, "t", number, suffix);
        const Tensor* tensor = file.tensor(name);
        if (tensor == nullptr) return failure(Errc::corrupt, "tensor '", name, "' is missing");
        tensors.push_back({number, tensor->type, extents_of(*tensor), bytes_of(*tensor)});
    }
    return tensors;
}

Result<GraphCase> read_graph_case(const Metadata& file, const std::string& prefix,
                                  std::string name) {
    GraphCase golden;
    golden.name = std::move(name);
    HEDDLE_TRY_ASSIGN(golden.description, file.string(prefix + "desc"));
    HEDDLE_TRY_ASSIGN(golden.program, file.strings(prefix + "nodes"));
    HEDDLE_TRY_ASSIGN(golden.leafs, read_tensors(file, prefix, "leafs", ""));
    HEDDLE_TRY_ASSIGN(golden.outputs, read_tensors(file, prefix, "outputs", ".out"));
    HEDDLE_TRY_ASSIGN(golden.intermediates, read_tensors(file, prefix, "intermediates", ".out"));
    HEDDLE_TRY_ASSIGN(golden.changed_leafs, read_tensors(file, prefix, "changed_leafs", ".after"));
    HEDDLE_TRY_ASSIGN(golden.gradients, read_tensors(file, prefix, "grad_of", ".grad"));
    HEDDLE_TRY_ASSIGN(golden.tolerance, file.f32(prefix + "tolerance"));
    return golden;
}

}  // namespace

Result<std::size_t> end_of(const Layout& layout) {
    HEDDLE_TRY(check_extents(layout.type, layout.extent));
    if (std::ranges::count(layout.extent, 0) != 0) return std::size_t{0};
    std::size_t end = layout.offset;
    bool too_large = __builtin_add_overflow(end, size_of(layout.type), &end);
    for (std::size_t d = 0; d < kMaxDims; ++d) {
        const std::int64_t steps =
            (d == 0 ? layout.extent[0] / block_size(layout.type) : layout.extent[d]) - 1;
        std::size_t distance = 0;
        too_large |= __builtin_mul_overflow(steps, layout.stride[d], &distance);
        too_large |= __builtin_add_overflow(end, distance, &end);
    }
    if (too_large) return failure(Errc::corrupt, "its strides pass the end of memory");
    return end;
}

const Source* OpCase::source(int slot) const {
    const auto found = std::ranges::find(sources, slot, &Source::slot);
    return found == sources.end() ? nullptr : &*found;
}

Result<CaseFile> read_case_file(const std::string& path) {
    HEDDLE_TRY_ASSIGN(const Metadata file, Metadata::open(path));
    auto count = file.u32("n_cases");
    if (!count) return std::move(count).error().within(path);
    CaseFile cases;
    const std::string stem = std::filesystem::path(path).stem().string();
    for (std::uint32_t i = 0; i < *count; ++i) {
        const std::string prefix = text("c", i, ".");
        const std::string name = text(stem, " case ", i);
        if (file.has(prefix + "nodes")) {
            auto golden = read_graph_case(file, prefix, name);
            if (!golden) return std::move(golden).error().within(name);
            cases.graphs.push_back(*std::move(golden));
        } else {
            auto golden = read_op_case(file, prefix, name);
            if (!golden) return std::move(golden).error().within(name);
            cases.ops.push_back(*std::move(golden));
        }
    }
    return cases;
}

Result<std::vector<std::string>> list_case_files(const std::string& directory) {
    std::error_code failed;
    std::vector<std::string> files;
    std::filesystem::directory_iterator entry(directory, failed);
    for (; !failed && entry != std::filesystem::directory_iterator(); entry.increment(failed)) {
        if (entry->path().extension() == ".gguf") files.push_back(entry->path().string());
    }
    if (failed) return failure(Errc::io, directory, " cannot be listed: ", failed.message());
    std::ranges::sort(files);
    return files;
}

}  // namespace heddle::golden
