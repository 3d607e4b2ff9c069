# heddle_scan: a header that lists what stands in other files, so that nobody keeps the list. A script of cmake/scan
# writes it when it is missing or one of the files has changed; `target` compiles it in.
#
#   heddle_scan(ggml-cpu-objects kernels generated/backends/cpu/every_kernel.hpp FILES ${sources})
#
# Target heddle_generated makes all of them, and whatever else sources include that the build makes.
add_custom_target(heddle_generated)
function(heddle_scan target script output)
  cmake_parse_arguments(ARG "" "" "FILES" ${ARGN})
  set(output ${CMAKE_CURRENT_BINARY_DIR}/${output})
  set(files "")
  foreach(file IN LISTS ARG_FILES)
    get_filename_component(file ${file} ABSOLUTE)
    list(APPEND files ${file})
  endforeach()
  set(path ${PROJECT_SOURCE_DIR}/cmake/scan/${script}.cmake)
  string(REPLACE ";" "|" joined "${files}")
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} "-DFILES=${joined}" -DOUTPUT=${output} -P ${path}
    DEPENDS ${path} ${files}
    COMMENT "Listing ${script}"
    VERBATIM)
  add_custom_target(heddle_generated_${script} DEPENDS ${output})
  add_dependencies(heddle_generated heddle_generated_${script})
  target_sources(${target} PRIVATE ${output})
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/generated)
endfunction()
