#include "backends/cpu/dot/types.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "backends/cpu/dot/dot.hpp"
#include "quant/codec.hpp"

namespace heddle::cpu {
namespace {

int rows_of(Type type) {
    return static_cast<int>(std::count_if(std::begin(kTypeRows), std::end(kTypeRows),
                                          [&](const TypeRow& row) { return row.type == type; }));
}

TEST(TypeRows, HaveEveryBlockFormatOnceButTheSecondOperands) {
    for (int number = 0; number < GGML_TYPE_COUNT; ++number) {
        const auto type = static_cast<Type>(number);
        if (quant::codec_of(type) == nullptr) continue;
        const bool is_second = type == GGML_TYPE_Q8_1 || type == GGML_TYPE_Q8_K;
        EXPECT_EQ(rows_of(type), is_second ? 0 : 1) << name_of(type);
    }
}

TEST(TypeRows, NameATypeThatColumnsCanBeRoundedTo) {
    for (const TypeRow& row : kTypeRows) {
        const bool is_own = row.family == Family::plain;
        const bool is_block = row.dot_type == GGML_TYPE_Q8_0 || row.dot_type == GGML_TYPE_Q8_1 ||
                              row.dot_type == GGML_TYPE_Q8_K;
        EXPECT_TRUE(is_own ? row.dot_type == row.type : is_block) << name_of(row.type);
        EXPECT_NE(dot_columns_of(row.type), nullptr) << name_of(row.type);
    }
}

TEST(TypeRows, AreFoundByTypeAndFamily) {
    const auto number = []<Type kType>() { return static_cast<int>(kType); };
    for (const TypeRow& row : kTypeRows) {
        const int k = find_by_type<int, Family::k>(row.type, number);
        const int others =
            find_by_type<int, Family::plain, Family::simple, Family::grid>(row.type, number);
        EXPECT_EQ(k, row.family == Family::k ? row.type : 0) << name_of(row.type);
        EXPECT_EQ(others, row.family == Family::k ? 0 : row.type) << name_of(row.type);
    }
    EXPECT_EQ((find_by_type<int, Family::k, Family::grid>(GGML_TYPE_I32, number)), 0);
}

}  // namespace
}  // namespace heddle::cpu
