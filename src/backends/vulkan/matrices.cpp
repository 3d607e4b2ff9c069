#include "backends/vulkan/matrices.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <set>
#include <string_view>
#include <utility>

namespace heddle::vulkan {
namespace {

// Of the SPIR-V specification, and of both extensions to it.
enum Op : std::uint32_t {
    extension = 10,
    capability = 17,
    type_int = 21,
    constant_true = 41,
    constant = 43,
    khr_type = 4456,
    khr_load,
    khr_store,
    khr_product,
    khr_length,
    nv_type = 5358,
    nv_load,
    nv_store,
    nv_product,
    nv_length,
};
constexpr std::uint32_t kCapabilityNv = 5357, kCapabilityKhr = 6022;
constexpr std::string_view kNameNv = "SPV_NV_cooperative_matrix";
constexpr std::string_view kNameKhr = "SPV_KHR_cooperative_matrix";
constexpr std::size_t kHeader = 5,
                      kBound = 3;  // words before the first instruction; numbers in use

/// An instruction: its op, and the words behind the first.
struct Instruction {
    std::uint32_t op;
    std::vector<std::uint32_t> words;
};

std::vector<Instruction> parse(std::span<const std::uint32_t> words) {
    std::vector<Instruction> all;
    for (std::size_t at = kHeader; at < words.size();) {
        const std::size_t length = std::max<std::uint32_t>(words[at] >> 16, 1);
        const auto rest = words.subspan(at + 1, std::min(length, words.size() - at) - 1);
        all.push_back({words[at] & 0xffff, {rest.begin(), rest.end()}});
        at += length;
    }
    return all;
}

std::vector<std::uint32_t> words_of(std::string_view name) {
    std::vector<std::uint32_t> words(name.size() / 4 + 1, 0);
    std::memcpy(words.data(), name.data(), name.size());
    return words;
}

class Rewriter {
public:
    explicit Rewriter(std::span<const std::uint32_t> words)
        : header_(words.begin(), words.begin() + kHeader), all_(parse(words)) {}

    std::vector<std::uint32_t> run() {
        look();
        std::vector<std::uint32_t> words = header_;
        bool has_uses = false;
        words[kBound] += static_cast<std::uint32_t>(uses_.size());
        for (Instruction& each : all_) {
            if (each.op == nv_type && !std::exchange(has_uses, true)) {
                for (std::uint32_t use = 0; use < uses_.size(); ++use) {
                    append(words, {constant, {unsigned_, number_of(use), use}});
                }
            }
            change(each);
            append(words, each);
        }
        return words;
    }

private:
    /// Finds the types of matrices, and from the products which places they have in them.
    void look() {
        std::set<std::uint32_t> types;
        std::map<std::uint32_t, std::uint32_t> type_of;
        for (const Instruction& each : all_) {
            if (each.op == nv_type) types.insert(each.words[0]);
            if (each.op == type_int && each.words[1] == 32 && each.words[2] == 0) {
                unsigned_ = each.words[0];
            }
            if (each.op == constant_true) trues_.insert(each.words[1]);
            if (each.words.size() > 1 && types.contains(each.words[0]) && each.op != nv_type) {
                type_of[each.words[1]] = each.words[0];
            }
            if (each.op == nv_product) {
                for (std::size_t place = 0; place < uses_.size(); ++place) {
                    uses_[place] = type_of[each.words[2 + place]];
                }
            }
        }
    }

    /// The constant that says a place in a product; 0 and 1 also say how matrices lie in memory.
    std::uint32_t number_of(std::uint32_t use) const { return header_[kBound] + use; }

    void change(Instruction& each) const {
        std::vector<std::uint32_t>& w = each.words;
        if (each.op == capability && w[0] == kCapabilityNv) w[0] = kCapabilityKhr;
        if (each.op == extension && w == words_of(kNameNv)) w = words_of(kNameKhr);
        if (each.op == nv_type) {
            const auto place = std::ranges::find(uses_, w[0]);
            w.push_back(number_of(static_cast<std::uint32_t>(place - uses_.begin())));
        }
        // NVIDIA: stride, whether columns lie together. Khronos: what lies together, stride.
        if (each.op == nv_load) w = moved(w, 3);
        if (each.op == nv_store) w = moved(w, 2);
        if (each.op >= nv_type && each.op <= nv_length) each.op -= nv_type - khr_type;
    }

    std::vector<std::uint32_t> moved(std::vector<std::uint32_t> w, std::size_t stride) const {
        w[stride + 1] = number_of(trues_.contains(w[stride + 1]) ? 1 : 0);
        std::swap(w[stride], w[stride + 1]);
        return w;
    }

    static void append(std::vector<std::uint32_t>& words, const Instruction& each) {
        words.push_back(static_cast<std::uint32_t>(each.words.size() + 1) << 16 | each.op);
        words.insert(words.end(), each.words.begin(), each.words.end());
    }

    std::vector<std::uint32_t> header_;
    std::vector<Instruction> all_;
    std::uint32_t unsigned_ = 0;           ///< the type of the constants
    std::set<std::uint32_t> trues_;        ///< constants
    std::array<std::uint32_t, 3> uses_{};  ///< the types of both factors and of the sum
};

}  // namespace

std::vector<std::uint32_t> with_khronos_matrices(std::span<const std::uint32_t> words) {
    return Rewriter(words).run();
}

}  // namespace heddle::vulkan
