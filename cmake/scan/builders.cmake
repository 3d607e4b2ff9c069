# Functions of ggml's headers that build nodes or change them, but those that take a function of the caller's or give
# something else than a tensor.
string(REPLACE "|" ";" files "${FILES}")
set(rows "")
foreach(file IN LISTS files)
  file(STRINGS ${file} lines REGEX "GGML_API .*ggml_[a-z0-9_]+[(]")
  foreach(line IN LISTS lines)
    string(REGEX MATCH "(ggml_[a-z0-9_]+)[(]" found "${line}")
    set(name ${CMAKE_MATCH_1})
    if(NOT name MATCHES "^ggml_(map_custom|custom_)|_get_prec$|_corr_dims$|^ggml_flash_attn_back$")
      string(APPEND rows "    {\"${name}\", bind(${name})},\n")
    endif()
  endforeach()
endforeach()
file(WRITE ${OUTPUT} "// Written by the build: the builders of ggml's headers.
${rows}")
