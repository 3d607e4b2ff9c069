#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <vector>

#include "commands.hpp"
#include "console.hpp"
#include "heddle/heddle.hpp"
#include "json_text.hpp"
#include "outcome.hpp"
#include "shared_options.hpp"

/// `heddle inspect`: what is in a GGUF file.
namespace heddle::tool {
namespace {

struct InspectOptions {
    std::string model;
    bool json = false, verbose = false;
};

using nlohmann::json;

/// Elements of lists that are shown to people, unless they ask for all.
constexpr std::size_t kShown = 6;

json scalar_json(const void* data, gguf_type type, std::size_t i) {
    switch (type) {
        case GGUF_TYPE_UINT8:
            return static_cast<const std::uint8_t*>(data)[i];
        case GGUF_TYPE_INT8:
            return static_cast<const std::int8_t*>(data)[i];
        case GGUF_TYPE_UINT16:
            return static_cast<const std::uint16_t*>(data)[i];
        case GGUF_TYPE_INT16:
            return static_cast<const std::int16_t*>(data)[i];
        case GGUF_TYPE_UINT32:
            return static_cast<const std::uint32_t*>(data)[i];
        case GGUF_TYPE_INT32:
            return static_cast<const std::int32_t*>(data)[i];
        case GGUF_TYPE_UINT64:
            return static_cast<const std::uint64_t*>(data)[i];
        case GGUF_TYPE_INT64:
            return static_cast<const std::int64_t*>(data)[i];
        case GGUF_TYPE_FLOAT32:
            return static_cast<const float*>(data)[i];
        case GGUF_TYPE_FLOAT64:
            return static_cast<const double*>(data)[i];
        case GGUF_TYPE_BOOL:
            return static_cast<const std::int8_t*>(data)[i] != 0;
        default:
            return nullptr;
    }
}

json list_json(const gguf_context* file, std::int64_t id, std::size_t most) {
    json list = json::array();
    const gguf_type type = gguf_get_arr_type(file, id);
    const std::size_t count = std::min(gguf_get_arr_n(file, id), most);
    for (std::size_t i = 0; i < count; ++i) {
        list.push_back(type == GGUF_TYPE_STRING
                           ? json(gguf_get_arr_str(file, id, i))
                           : scalar_json(gguf_get_arr_data(file, id), type, i));
    }
    return list;
}

json value_json(const gguf_context* file, std::int64_t id, std::size_t most) {
    const gguf_type type = gguf_get_kv_type(file, id);
    if (type == GGUF_TYPE_STRING) return gguf_get_val_str(file, id);
    if (type == GGUF_TYPE_ARRAY) return list_json(file, id, most);
    return scalar_json(gguf_get_val_data(file, id), type, 0);
}

std::string value_text(const gguf_context* file, std::int64_t id, bool all) {
    const gguf_type type = gguf_get_kv_type(file, id);
    if (type == GGUF_TYPE_ARRAY) {
        const std::size_t count = gguf_get_arr_n(file, id);
        std::string text = json_text(list_json(file, id, all ? count : kShown), -1);
        if (!all && count > kShown) text.insert(text.size() - 1, ", ...");
        return fmt::format("{} x {}  {}", count, gguf_type_name(gguf_get_arr_type(file, id)), text);
    }
    std::string text = json_text(value_json(file, id, 0), -1);
    if (!all && text.size() > 100) text = text.substr(0, 97) + "...";
    return text;
}

std::vector<std::int64_t> extents_of(const ggml_tensor& tensor) {
    return {tensor.ne, tensor.ne + ggml_n_dims(&tensor)};
}

std::string shape_text(const ggml_tensor& tensor) {
    std::string text;
    for (const std::int64_t extent : extents_of(tensor)) {
        text += (text.empty() ? "" : " x ") + std::to_string(extent);
    }
    return text;
}

/// Calls `body` for each tensor, in the order of the file.
/// "blk.10.attn_q.weight" is of block 10; what is of none comes before.
long block_of(const std::string& name) {
    constexpr std::string_view kBlock = "blk.";
    return name.starts_with(kBlock) ? std::strtol(name.c_str() + kBlock.size(), nullptr, 10) : -1;
}

template <class Body>
void for_each_tensor(const ModelFile& file, const Body& body) {
    for (std::int64_t i = 0; i < file.tensor_count(); ++i) {
        body(i, *file.find(gguf_get_tensor_name(file.c(), i)));
    }
}

void print_json(const ModelFile& file) {
    json metadata = json::object(), tensors = json::array();
    for (std::int64_t i = 0; i < gguf_get_n_kv(file.c()); ++i) {
        metadata[gguf_get_key(file.c(), i)] = value_json(file.c(), i, SIZE_MAX);
    }
    for_each_tensor(file, [&](std::int64_t i, const ggml_tensor& tensor) {
        tensors.push_back({{"name", tensor.name},
                           {"type", ggml_type_name(tensor.type)},
                           {"shape", extents_of(tensor)},
                           {"offset", gguf_get_tensor_offset(file.c(), i)},
                           {"bytes", ggml_nbytes(&tensor)}});
    });
    const json all{{"file", file.path()},
                   {"version", gguf_get_version(file.c())},
                   {"alignment", gguf_get_alignment(file.c())},
                   {"data_offset", gguf_get_data_offset(file.c())},
                   {"metadata", metadata},
                   {"tensors", tensors}};
    print("{}\n", json_text(all));
}

void print_tables(const ModelFile& file, bool all) {
    Table keys({"key", "type", "value"});
    keys.align_left(1);
    keys.align_left(2);
    for (std::int64_t i = 0; i < gguf_get_n_kv(file.c()); ++i) {
        keys.add({gguf_get_key(file.c(), i), gguf_type_name(gguf_get_kv_type(file.c(), i)),
                  value_text(file.c(), i, all)});
    }
    keys.print();

    std::map<std::string, std::pair<std::size_t, std::size_t>> by_type;  // tensors, bytes
    std::size_t bytes = 0;
    std::int64_t elements = 0;
    // Files may have block 10 before block 2.
    std::vector<const ggml_tensor*> ordered;
    for_each_tensor(file,
                    [&](std::int64_t, const ggml_tensor& tensor) { ordered.push_back(&tensor); });
    std::ranges::stable_sort(ordered, {}, [](const ggml_tensor* t) { return block_of(t->name); });
    Table tensors({"tensor", "type", "shape", "size"});
    for (const ggml_tensor* each : ordered) {
        const ggml_tensor& tensor = *each;
        const std::size_t size = ggml_nbytes(&tensor);
        tensors.add(
            {tensor.name, ggml_type_name(tensor.type), shape_text(tensor), bytes_text(size)});
        auto& [count, sum] = by_type[ggml_type_name(tensor.type)];
        ++count;
        sum += size;
        bytes += size;
        elements += ggml_nelements(&tensor);
    }
    print("\n");
    tensors.print();
    print("\nGGUF version {}, {} tensors, {:.2f} M parameters, {}:", gguf_get_version(file.c()),
          file.tensor_count(), static_cast<double>(elements) / 1e6, bytes_text(bytes));
    for (const auto& [type, sums] : by_type) {
        print(" {} {} ({})", sums.first, type, bytes_text(sums.second));
    }
    print("\n");
}

Result<> inspect(const InspectOptions& options) {
    expect_files_cut_short();
    HEDDLE_TRY_ASSIGN(const ModelFile file, ModelFile::open(options.model));
    if (options.json) {
        print_json(file);
    } else {
        print_tables(file, options.verbose);
    }
    return ok();
}

}  // namespace

void add_inspect(CLI::App& app, int& status) {
    auto options = std::make_shared<InspectOptions>();
    CLI::App* command = app.add_subcommand("inspect", "Show what is in a GGUF file");
    command->add_option("model", options->model, "GGUF file")->type_name("FILE")->required();
    add_shared_flag(*command, shared::kJson, options->json);
    add_shared_flag(*command, shared::kVerbose, options->verbose, ": long values in full");
    command->callback(
        [options, &status] { status = report_outcome("inspect", inspect(*options)); });
}

}  // namespace heddle::tool
