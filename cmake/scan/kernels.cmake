# Kernels of the CPU: `extern const Kernel kName` at the beginning of a line, with or without the rest.
string(REPLACE "|" ";" files "${FILES}")
set(names "")
foreach(file IN LISTS files)
  file(STRINGS ${file} lines REGEX "^extern const Kernel k")
  foreach(line IN LISTS lines)
    string(REGEX MATCH "^extern const Kernel (k[A-Za-z0-9]+)" found "${line}")
    list(APPEND names ${CMAKE_MATCH_1})
  endforeach()
endforeach()
list(SORT names)
set(declarations "")
set(rows "")
foreach(name IN LISTS names)
  string(APPEND declarations "extern const Kernel ${name};\n")
  string(APPEND rows "    &${name},\n")
endforeach()
file(WRITE ${OUTPUT} "// Written by the build: every kernel, by name.
#pragma once

#include \"backends/cpu/kernel.hpp\"

namespace heddle::cpu {

${declarations}
inline constexpr const Kernel* kEveryKernel[] = {
${rows}};

}  // namespace heddle::cpu
")
