# Descriptors of ops: structs whose first members have `static constexpr Op id` among them.
string(REPLACE "|" ";" files "${FILES}")
set(includes "")
set(names "")
foreach(file IN LISTS files)
  file(READ ${file} text)
  string(REGEX MATCHALL "struct [A-Za-z0-9]+[^{};]*{[^{}]*static constexpr Op id = " found "${text}")
  foreach(one IN LISTS found)
    string(REGEX MATCH "^struct ([A-Za-z0-9]+)" name "${one}")
    list(APPEND names ops::${CMAKE_MATCH_1})
  endforeach()
  if(found)
    get_filename_component(header ${file} NAME)
    string(APPEND includes "#include \"ops/${header}\"\n")
  endif()
endforeach()
list(JOIN names ",\n           " names)
file(WRITE ${OUTPUT} "// Written by the build: the descriptors of this folder.
#pragma once

${includes}#include \"ops/op_table.hpp\"

namespace heddle {

using AllOps =
    OpList<${names}>;

}  // namespace heddle
")
