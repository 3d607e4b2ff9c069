#include "bench/op_choice.hpp"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <set>

#include "nearest.hpp"

namespace heddle::tool::bench {
namespace {

Result<std::vector<ggml_type>> types_of(const std::vector<std::string>& names) {
    std::vector<ggml_type> types;
    for (const std::string& name : names) {
        if (name == "all") {
            for (int i = 0; i < GGML_TYPE_COUNT; ++i) types.push_back(static_cast<ggml_type>(i));
            // No weights have these; the last two hold what products are computed from.
            std::erase_if(types, [](ggml_type type) {
                return ggml_blck_size(type) == 0 || type == GGML_TYPE_Q8_1 ||
                       type == GGML_TYPE_Q8_K ||
                       (!ggml_is_quantized(type) && type != GGML_TYPE_F32 &&
                        type != GGML_TYPE_F16 && type != GGML_TYPE_BF16);
            });
            continue;
        }
        HEDDLE_TRY_ASSIGN(const ggml_type type, find_type(name));
        types.push_back(type);
    }
    return types;
}

/// The cases of all ops, for each model that `shapes` names.
std::vector<Case> cases_of_models(const std::string& shapes, const std::vector<ggml_type>& types,
                                  bool quick) {
    std::vector<Case> cases;
    for (const char* model : kModels) {
        if (shapes != model && shapes != kEveryModel) continue;
        std::ranges::move(all_cases({model, types, quick}), std::back_inserter(cases));
    }
    return cases;
}

std::set<std::string> ops_of(const std::string& shapes) {
    std::set<std::string> ops;
    for (const Case& each : cases_of_models(shapes, {}, true)) ops.insert(each.op);
    return ops;
}

/// The names as cases have them. Fails if a name is none of `known`.
Result<std::set<std::string>> find_ops(const std::vector<std::string>& names,
                                       const std::set<std::string>& known) {
    std::set<std::string> found;
    for (const std::string& name : names) {
        std::string upper = name;
        std::ranges::transform(upper, upper.begin(),
                               [](unsigned char c) { return std::toupper(c); });
        if (known.contains(upper)) {
            found.insert(upper);
            continue;
        }
        const std::vector<std::string> names_of_ops(known.begin(), known.end());
        const std::string meant = did_you_mean(upper, names_of_ops);
        if (!meant.empty()) return failure(Errc::not_found, "no op '", name, "'", meant);
        return failure(Errc::not_found, "no op '", name, "' among the ", known.size(),
                       " that are measured (docs/ops.md lists ops)");
    }
    return found;
}

}  // namespace

Result<std::vector<Case>> cases_for(const OpsOptions& options) {
    std::vector<std::string> type_names = options.types;
    if (options.all && type_names.empty()) type_names = {"all"};
    HEDDLE_TRY_ASSIGN(const auto types, types_of(type_names));
    const bool quick = options.common.quick;
    const bool any_model = options.shapes.empty();
    const std::string shapes = any_model ? kModels.front() : options.shapes;
    HEDDLE_TRY_ASSIGN(const auto wanted,
                      find_ops(options.names, ops_of(any_model ? kEveryModel : shapes)));
    std::vector<Case> cases = cases_of_models(shapes, types, quick);
    if (any_model && !wanted.empty()) {
        // Ops that language models lack, at the shapes of those that have them.
        const std::set<std::string> common = ops_of(shapes);
        for (Case& each : cases_of_models(kEveryModel, types, quick)) {
            if (!common.contains(each.op)) cases.push_back(std::move(each));
        }
    }
    std::erase_if(cases, [&](const Case& each) {
        return wanted.empty() ? !each.usual && !options.all : !wanted.contains(each.op);
    });
    if (cases.empty()) return failure(Errc::not_found, "no op is measured with these types");
    return cases;
}

}  // namespace heddle::tool::bench
