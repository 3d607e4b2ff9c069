# What the scripts of this folder share.

# run: a command that must succeed; what it prints is in `output` afterwards.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${ARGN}\n${text}")
  endif()
  set(output "${text}" PARENT_SCOPE)
endfunction()

# expect: the text must match the expression; expect(NOT ...) must not.
function(expect text expression)
  if(text STREQUAL NOT)
    if("${ARGV2}" MATCHES "${expression}")
      message(FATAL_ERROR "found ${expression} in\n${ARGV2}")
    endif()
  elseif(NOT "${text}" MATCHES "${expression}")
    message(FATAL_ERROR "no ${expression} in\n${text}")
  endif()
endfunction()

# What must be there, from the prefix on.
set(installed_files
  include/ggml.h include/ggml-alloc.h include/ggml-backend.h include/ggml-blas.h include/ggml-cpp.h
  include/ggml-cpu.h include/ggml-cuda.h include/ggml-opt.h include/ggml-rpc.h include/ggml-vulkan.h
  include/gguf.h include/heddle/heddle.hpp include/heddle/backend.hpp include/heddle/heddle.h
  include/heddle/ggml-backend-2024.h include/heddle/2024/sched.h include/heddle/plugin/ggml-backend-impl.h
  ${LIBDIR}/cmake/ggml/ggml-config.cmake ${LIBDIR}/cmake/ggml/ggml-config-version.cmake
  ${LIBDIR}/cmake/heddle/heddle-config.cmake ${LIBDIR}/cmake/heddle/heddle-config-version.cmake
  ${LIBDIR}/pkgconfig/ggml.pc ${LIBDIR}/pkgconfig/heddle.pc)
if(EXISTS ${BUILD_DIR}/bin/heddle)
  list(APPEND installed_files
    bin/heddle share/man/man1/heddle.1 share/bash-completion/completions/heddle
    share/zsh/site-functions/_heddle share/fish/vendor_completions.d/heddle.fish
    share/heddle/tales-7m-q8_0.gguf share/heddle/examples/CMakeLists.txt
    share/doc/heddle/html/index.html share/doc/heddle/html/heddle.html share/doc/heddle/html/schedule.png)
endif()
foreach(library ggml-base ggml ggml-cpu)
  if(SHARED)
    list(APPEND installed_files ${LIBDIR}/lib${library}.so ${LIBDIR}/lib${library}.so.0
                                ${LIBDIR}/lib${library}.so.${VERSION})
  else()
    list(APPEND installed_files ${LIBDIR}/lib${library}.a)
  endif()
endforeach()
if(SHARED)
  string(REPLACE "," ";" PLUGINS "${PLUGINS}")
  foreach(plugin IN LISTS PLUGINS)
    list(APPEND installed_files ${LIBDIR}/${PLUGIN_SUBDIRECTORY}/lib${plugin}.so)
  endforeach()
  if(BLAS)
    list(APPEND installed_files ${LIBDIR}/libggml-blas.so)
  endif()
endif()
