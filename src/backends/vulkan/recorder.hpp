#pragma once

#include <cstring>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "backends/vulkan/arguments.hpp"
#include "backends/vulkan/facts.hpp"
#include "backends/vulkan/shaders.hpp"

namespace heddle::vulkan {

/// A launch of a shader.
struct Dispatch {
    Shader shader;
    Specialization specialization;
    std::array<std::uint32_t, 3> groups{1, 1, 1};
    std::array<std::byte, kPushBytes> push{};
    std::uint32_t push_size = 0;
    std::int64_t arguments = -1;  ///< offset of its Arguments, whose address is pushed; -1: none
};

/// Kernels before this have finished when those after it begin.
struct Barrier {};

/// What is before has ended, and is timed apart from what comes after.
struct Mark {};

using Command = std::variant<Dispatch, Barrier, Mark>;

/// Turns nodes into commands. Knows no device: commands can be looked at in tests.
class Recorder {
public:
    Recorder(const DeviceFacts& device, std::uint64_t scratch)
        : device_(device), scratch_(scratch) {}

    const DeviceFacts& device() const { return device_; }

    /// As many bytes as the kernel's row asked for, aligned to 256.
    std::uint64_t scratch() const { return scratch_; }

    /// A shader that reads Arguments. Values are those of its constants after the first, which is
    /// the size of a workgroup. `extra` is copied and lies where `arguments.extra` says.
    struct Work {
        Shader shader;
        int workgroup = 256;
        std::array<std::int32_t, 7> values{};
        std::span<const std::byte> extra{};
    };

    /// One invocation for each of `arguments.count` elements.
    void run_elements(const Work& work, const Arguments& arguments, std::int64_t count);

    /// One workgroup for each of `arguments.count` rows.
    void run_rows(const Work& work, const Arguments& arguments, std::int64_t count);

    /// A shader whose arguments are all pushed.
    template <class Push>
    void run_pushed(Shader shader, const Specialization& specialization, const Push& push,
                    std::array<std::uint32_t, 3> groups) {
        static_assert(sizeof(Push) <= kPushBytes);
        Dispatch dispatch{shader, specialization, groups, {}, sizeof(Push), -1};
        std::memcpy(dispatch.push.data(), &push, sizeof(Push));
        commands_.push_back(dispatch);
    }

    /// Between steps of one kernel that depend on each other, and between kernels that do.
    void barrier() {
        if (!commands_.empty()) commands_.push_back(Barrier{});
    }

    /// What comes next has a name and is timed.
    void mark(std::string name) {
        commands_.push_back(Mark{});
        names_.push_back(std::move(name));
    }
    const std::vector<std::string>& names() const { return names_; }

    std::span<const Command> commands() const { return commands_; }

    /// All Arguments and what lies beside them, for memory at `address`.
    std::vector<std::byte> arguments_at(std::uint64_t address, std::uint64_t faults,
                                        std::uint64_t codebooks) const;
    std::size_t arguments_size() const { return bytes_.size(); }

private:
    void run(const Work& work, const Arguments& arguments, std::int64_t count, std::int64_t groups);

    const DeviceFacts& device_;
    const std::uint64_t scratch_;
    std::vector<Command> commands_;
    std::vector<std::string> names_;  ///< of what follows the marks
    std::vector<std::byte> bytes_;
    std::vector<std::size_t> places_;  ///< of Arguments in `bytes_`
};

/// Groups in two dimensions, as shaders count them: no more than the device allows in one.
std::array<std::uint32_t, 3> fold_groups(std::int64_t groups, std::uint32_t most);

}  // namespace heddle::vulkan
