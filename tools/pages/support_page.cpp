// Writes the table of the README that says which device computes what: every recorded case, and
// products with every type of weights, are shown to every device, which takes or declines them.
//
//   support_page DIRECTORY-OF-CASES LIST-OF-BACKENDS

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iostream>
#include <set>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "ggml-backend.h"
#include "ggml/ops_reduce.h"
#include "golden/build_case.hpp"
#include "golden/case_file.hpp"
#include "ops/catalogue.hpp"
#include "quant/traits.hpp"

namespace {

using namespace heddle;

/// A device of the table, and why it is there.
struct Column {
    std::string name;
    std::string is;
    ggml_backend_dev_t device = nullptr;
    std::set<std::string> ops{};
    int weights = 0;  ///< types of weights in large products
};

/// Devices may decline products as small as the recorded ones: here are large ones, of every type.
Result<int> show_products(std::vector<Column>& columns) {
    int total = 0;
    for (int i = 0; i < GGML_TYPE_COUNT; ++i) {
        const auto type = static_cast<Type>(i);
        const bool is_weight = ggml_is_quantized(type) || type == GGML_TYPE_F32 ||
                               type == GGML_TYPE_F16 || type == GGML_TYPE_BF16;
        // Formats of intermediate results are no weights.
        if (ggml_blck_size(type) == 0 || !is_weight || type == GGML_TYPE_Q8_1 ||
            type == GGML_TYPE_Q8_K) {
            continue;
        }
        HEDDLE_TRY_ASSIGN(auto context, golden::make_header_context(4));
        Tensor* weights = ggml_new_tensor_2d(context.get(), type, 512, 256);
        Tensor* x = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, 512, 64);
        Tensor* product = ggml_mul_mat(context.get(), weights, x);
        ++total;
        for (Column& column : columns) {
            if (!ggml_backend_dev_supports_op(column.device, product)) continue;
            column.ops.insert("MUL_MAT");
            ++column.weights;
        }
    }
    return total;
}

Result<> show_recorded(const std::string& directory, std::vector<Column>& columns,
                       std::set<std::string>& ops) {
    HEDDLE_TRY_ASSIGN(const auto files, golden::list_case_files(directory));
    for (const std::string& file : files) {
        HEDDLE_TRY_ASSIGN(const golden::CaseFile cases, golden::read_case_file(file));
        for (const golden::OpCase& each : cases.ops) {
            HEDDLE_TRY_ASSIGN(auto context, golden::make_raw_context(each));
            HEDDLE_TRY_ASSIGN(const auto raw, golden::make_raw_node(each, *context));
            if (find_op(raw.node->op)->is_view) continue;  // nothing to compute
            ops.insert(each.op);
            for (Column& column : columns) {
                if (ggml_backend_dev_supports_op(column.device, raw.node)) {
                    column.ops.insert(each.op);
                }
            }
        }
    }
    return ok();
}

std::string ops_text(const Column& column, const std::set<std::string>& all) {
    if (column.ops == all) return "all " + std::to_string(all.size());
    std::string text = std::to_string(column.ops.size()) + " of " + std::to_string(all.size());
    if (column.ops.size() > 6) return text;
    const char* separator = ": ";
    for (const std::string& op : column.ops) {
        text.append(separator).append(op);
        separator = ", ";
    }
    return text;
}

void print_types() {
    std::string plain, blocks;
    int count = 0;
    for (int i = 0; i < GGML_TYPE_COUNT; ++i) {
        const auto type = static_cast<Type>(i);
        if (ggml_blck_size(type) == 0) continue;  // a number that is not used any more
        std::string& list = ggml_is_quantized(type) ? blocks : plain;
        count += ggml_is_quantized(type) ? 1 : 0;
        list.append(list.empty() ? "" : ", ").append(ggml_type_name(type));
    }
    std::cout << "Element types: " << plain << ". Block formats (" << count << "): " << blocks
              << ".\n";
}

void print_gradients() {
    int with = 0, all = 0;
    for (const OpInfo& op : all_ops()) {
        ++all;
        with += op.gradient != nullptr ? 1 : 0;
    }
    std::cout << "Of the " << all << " ops of the catalogue, " << with << " have a gradient.\n";
}

/// What the list of backends says a backend is: the last cell of its row.
Result<std::string> read_what(const std::string& list, const std::string& name) {
    std::ifstream file(list);
    for (std::string row; std::getline(file, row);) {
        if (!row.starts_with(name + " ")) continue;
        const bool is_on_request = row.find("| request ") != std::string::npos;
        return row.substr(row.rfind("| ") + 2) + (is_on_request ? "; on request" : "");
    }
    return failure(Errc::not_found, list, " has no row for ", name);
}

Result<> write_page(const std::string& directory, const std::string& list) {
    ggml_backend_load_all();
    std::vector<Column> columns = {{"CPU", {}}, {"BLAS", {}}, {"sim", {}}};
    for (Column& column : columns) {
        std::string name = column.name;
        std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
        HEDDLE_TRY_ASSIGN(column.is, read_what(list, name));
        column.device = ggml_backend_dev_by_name(column.name.c_str());
        if (column.device == nullptr) {
            return failure(Errc::not_found, "the table needs the device ", column.name);
        }
    }
    std::set<std::string> ops;
    HEDDLE_TRY(show_recorded(directory, columns, ops));
    HEDDLE_TRY_ASSIGN(const int weights, show_products(columns));
    std::cout << "<!-- support: written by `make docs` -->\n"
                 "| device | ops | weights | what it is |\n|---|---|---|---|\n";
    for (const Column& column : columns) {
        std::cout << "| " << column.name << " | " << ops_text(column, ops) << " | "
                  << column.weights << " of " << weights << " types | " << column.is << " |\n";
    }
    std::cout << '\n';
    print_types();
    print_gradients();
    std::cout << "<!-- support: end -->\n";
    return ok();
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 3) {
        std::cerr
            << "support_page: give the directory of the recorded cases, and the list of backends\n";
        return 2;
    }
    const auto done = write_page(argv[1], argv[2]);
    if (!done) std::cerr << "support_page: " << done.error().message << '\n';
    return done ? 0 : 1;
}
