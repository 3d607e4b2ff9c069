#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <span>

namespace heddle::vulkan {

/// The shaders that are built in; the build lists them.
enum class Shader : std::uint16_t {
#define HEDDLE_VK_SHADER(name) name,
#include "shader_list.inc"
#undef HEDDLE_VK_SHADER
    count
};

/// Name and words of a shader.
struct ShaderCode {
    const char* name;
    std::span<const std::uint32_t> words;
};
const ShaderCode& code_of(Shader shader);

/// Values of a shader's specialisation constants: the first is the size of its workgroups, what the
/// others mean stands in the shader.
struct Specialization {
    std::array<std::int32_t, 8> values{};
    friend auto operator<=>(const Specialization&, const Specialization&) = default;
};

/// Bytes of push constants that every device has.
inline constexpr std::uint32_t kPushBytes = 128;

}  // namespace heddle::vulkan
