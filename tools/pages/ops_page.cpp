// Writes the page of ops from the catalogue: one row per op, straight from its descriptor.

#include <iostream>
#include <string>

#include "ops/catalogue.hpp"

namespace {

using namespace heddle;

/// Text that a Markdown table can hold.
std::string cell(std::string_view text) {
    std::string out;
    for (const char c : text) {
        if (c == '|') out += '\\';
        out += c;
    }
    return out;
}

std::string operands(const OpInfo& op) {
    std::string out;
    for (const char* source : op.sources) {
        if (!out.empty()) out += ' ';
        out.append("`").append(source).append("`");
    }
    return out;
}

std::string_view kind_name(ParamField::Kind kind) {
    switch (kind) {
        case ParamField::Kind::i32:
            return "i32";
        case ParamField::Kind::f32:
            return "f32";
        case ParamField::Kind::size:
            return "size";
        case ParamField::Kind::pointer:
            return "pointer";
    }
    return {};
}

std::string parameters(const OpInfo& op) {
    std::string out;
    for (const ParamField& field : op.fields) {
        if (!out.empty()) out += ", ";
        out.append(std::to_string(field.word)).append(" ").append(field.name);
        if (field.kind != ParamField::Kind::i32) out.append(":").append(kind_name(field.kind));
    }
    return out;
}

std::string properties(const OpInfo& op) {
    std::string out;
    const auto add = [&](bool holds, const char* word) {
        if (!holds) return;
        if (!out.empty()) out += ", ";
        out += word;
    };
    add(op.is_view, "view");
    add(op.can_run_in_place, "in place");
    add(op.may_reuse_source, "may reuse");
    add(op.gradient != nullptr, "gradient");
    return out;
}

}  // namespace

int main() {
    std::cout
        << "# Operations\n\n"
           "Made from the catalogue in `src/ops` by `make docs`; do not edit.\n\n"
           "An operand with `?` may be left out. Parameters are given with their word in\n"
           "`op_params` and their type where it is not i32. *view*: nothing is computed.\n"
           "*in place*: there is a builder whose result takes the memory of the first operand.\n"
           "*may reuse*: an allocator may give the result the memory of an operand of equal\n"
           "layout.\n\n"
           "| # | op | operands | parameters | what it is | properties |\n"
           "|---|---|---|---|---|---|\n";
    for (const OpInfo& op : all_ops()) {
        std::cout << "| " << static_cast<int>(op.id) << " | " << op.name << " | " << operands(op)
                  << " | " << parameters(op) << " | " << cell(op.summary) << " | " << properties(op)
                  << " |\n";
    }
}
