// The shaders' words, which the build made from their sources.

#include <array>

#include "backends/vulkan/shaders.hpp"

namespace heddle::vulkan {

const ShaderCode& code_of(Shader shader) {
#define HEDDLE_VK_SHADER(name) static constexpr std::uint32_t name##_words[] = {
#define HEDDLE_VK_SHADER_END \
    }                        \
    ;
#include "shader_words.inc"
#undef HEDDLE_VK_SHADER
#undef HEDDLE_VK_SHADER_END
    static constexpr std::array codes{
#define HEDDLE_VK_SHADER(name) ShaderCode{#name, name##_words},
#include "shader_list.inc"
#undef HEDDLE_VK_SHADER
    };
    return codes[static_cast<std::size_t>(shader)];
}

}  // namespace heddle::vulkan
