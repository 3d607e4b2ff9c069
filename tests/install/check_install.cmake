# Installs the build, moves the result elsewhere, and builds programs and plug-ins against it.
include(${CMAKE_CURRENT_LIST_DIR}/common.cmake)
set(stage ${BUILD_DIR}/install-check)
set(prefix ${stage}/moved)
file(REMOVE_RECURSE ${stage})

# What is installed, and that it works where it is not meant to be.
run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${stage}/first-place)
file(RENAME ${stage}/first-place ${prefix})
foreach(file IN LISTS installed_files)
  if(NOT EXISTS ${prefix}/${file})
    message(FATAL_ERROR "${file} is not installed")
  endif()
endforeach()
file(GLOB descriptions ${prefix}/${LIBDIR}/pkgconfig/*.pc ${prefix}/${LIBDIR}/cmake/*/*.cmake)
foreach(file IN LISTS descriptions)
  file(READ ${file} text)
  foreach(path ${BUILD_DIR} ${SOURCE_DIR})
    string(FIND "${text}" "${path}" at)
    if(NOT at EQUAL -1)
      message(FATAL_ERROR "${file} names ${path}")
    endif()
  endforeach()
endforeach()
if(EXISTS ${prefix}/bin/heddle)
  run(${prefix}/bin/heddle --version)
  expect("${output}" "${VERSION}")
endif()

# configure_and_build: an outside project, against the installed package.
function(configure_and_build name source)
  run(${CMAKE_COMMAND} -S ${source} -B ${stage}/build-${name} -DCMAKE_PREFIX_PATH=${prefix}
      -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_COMPILER=${C_COMPILER} -DCMAKE_CXX_COMPILER=${CXX_COMPILER}
      ${ARGN})
  run(${CMAKE_COMMAND} --build ${stage}/build-${name} -j 2)
endfunction()

# A C program; static libraries of ours are linked with a C++ compiler.
if(SHARED)
  configure_and_build(client ${SOURCE_DIR}/tests/install/client)
  run(${stage}/build-client/client)
endif()
configure_and_build(outside ${SOURCE_DIR}/tests/install/outside -DWITH_BLAS=${BLAS})
set(programs speech_program speech_user language_program language_package language_old cpp_program)
if(BLAS)
  list(APPEND programs blas_program)
endif()
foreach(program IN LISTS programs)
  run(${stage}/build-outside/${program})
endforeach()

# BLAS is there for who names it, and nobody else meets it.
find_program(ldd ldd)
if(SHARED AND BLAS AND ldd)
  run(${ldd} ${prefix}/${LIBDIR}/libggml.so ${stage}/build-outside/language_program)
  expect(NOT "[Bb][Ll][Aa][Ss]" "${output}")
  run(${CMAKE_COMMAND} -E chdir / ${prefix}/bin/heddle verify --device BLAS --op MUL_MAT --cases 1)
endif()

# The rules for devices are a program of their own.
if(SHARED AND EXISTS ${prefix}/bin/heddle)
  run(${CMAKE_COMMAND} -E chdir / ${prefix}/bin/heddle conform sim)
endif()

# Plug-ins of this version are found, those of others and of earlier interfaces are not taken.
set(plugins ${prefix}/${LIBDIR}/${PLUGIN_SUBDIRECTORY})
if(SHARED)
  set(other ${prefix}/${LIBDIR}/heddle/9.9.9)
  file(MAKE_DIRECTORY ${other})
  set(made ${stage}/build-outside/made)
  file(COPY ${made}/libggml-hexagon.so DESTINATION ${other})
  file(COPY ${made}/libggml-opencl.so ${made}/libggml-loom.so DESTINATION ${plugins})
  run(${CMAKE_COMMAND} -E chdir / ${stage}/build-outside/plugins_program)
  expect("${output}" "sim: there")
  expect("${output}" "loaded ${plugins}/libggml-sim.so")
  expect("${output}" "loaded ${plugins}/libggml-loom.so")  # a name that nobody knows
  if(BLAS)
    expect("${output}" "on request ${plugins}/libggml-blas.so")
  endif()
  expect("${output}" "rejected ${plugins}/libggml-opencl.so: [^\n]* version 1 of the plug-in interface")
  expect(NOT hexagon "${output}")
  file(RENAME ${other}/libggml-hexagon.so ${plugins}/libggml-hexagon.so)
  run(${CMAKE_COMMAND} -E chdir / ${stage}/build-outside/plugins_program)
  expect("${output}" "loaded ${plugins}/libggml-hexagon.so")
  file(RENAME ${plugins} ${prefix}/${LIBDIR}/heddle/0.0.1)
  run(${CMAKE_COMMAND} -E chdir / ${stage}/build-outside/plugins_program)
  expect("${output}" "sim: missing")
  file(RENAME ${prefix}/${LIBDIR}/heddle/0.0.1 ${plugins})
endif()

# pkg-config, without CMake.
find_program(pkg_config NAMES pkg-config pkgconf)
if(pkg_config)
  set(ENV{PKG_CONFIG_PATH} ${prefix}/${LIBDIR}/pkgconfig)
  run(${pkg_config} --modversion ggml heddle)
  expect("${output}" "^${VERSION}\n${VERSION}\n$")
  run(${pkg_config} --variable=plugindir heddle)
  if(NOT SHARED)
    file(MAKE_DIRECTORY ${plugins})
  endif()
  string(STRIP "${output}" output)
  if(NOT IS_DIRECTORY ${output})
    message(FATAL_ERROR "plug-ins would go to ${output}, which is not there")
  endif()
  run(${pkg_config} --cflags --libs ggml)
  separate_arguments(flags UNIX_COMMAND "${output}")
  run(${C_COMPILER} ${SOURCE_DIR}/tests/install/client/client.c -o ${stage}/by_pkg_config ${flags}
      -Wl,-rpath,${prefix}/${LIBDIR})
  run(${stage}/by_pkg_config)

  # README's first program, by the line that stands there.
  if(SHARED)
    file(STRINGS ${SOURCE_DIR}/README.md line REGEX "^[$] c[+][+] first_graph.cpp ")
    string(SUBSTRING "${line}" 2 -1 line)
    file(MAKE_DIRECTORY ${stage}/first)
    file(COPY ${prefix}/share/heddle/examples/first_graph.cpp DESTINATION ${stage}/first)
    run(sh -c "cd ${stage}/first && ${line} && ./first_graph")
    expect("${output}" ": 11 22 33 44")
  endif()
endif()

# The examples, as they are installed, far from the tree.
file(COPY ${prefix}/share/heddle/examples DESTINATION ${stage})
configure_and_build(examples ${stage}/examples)
run(${stage}/build-examples/first_graph_cpp)
expect("${output}" ": 11 22 33 44")
run(${stage}/build-examples/one_layer ${prefix}/share/heddle/tales-7m-q8_0.gguf 3)
expect("${output}" "gave 256 numbers")

# The libraries as part of another project: enough to see that its targets are right.
run(${CMAKE_COMMAND} -S ${SOURCE_DIR}/tests/install/outside/inside -B ${stage}/build-inside
    -DHEDDLE_SOURCE=${SOURCE_DIR} -DCMAKE_C_COMPILER=${C_COMPILER}
    -DCMAKE_CXX_COMPILER=${CXX_COMPILER})

# The example plug-in, from a copy far from the tree so that nothing of it can be found by accident. It
# loads, computes and unloads: the same test as for the one built in the tree.
if(CHECK)
  file(COPY ${SOURCE_DIR}/examples/plugin DESTINATION ${stage})
  configure_and_build(plugin ${stage}/plugin)
  run(${CMAKE_COMMAND} -E env PLAIN_BACKEND=${stage}/build-plugin/libggml-plain.so ${CHECK})
endif()

# Every function that programs link is in the libraries as they are installed.
if(SHARED)
  set(libraries)
  foreach(library IN ITEMS ggml-base ggml ggml-cpu)
    list(APPEND libraries ${library}=${prefix}/${LIBDIR}/lib${library}.so)
  endforeach()
  foreach(library IN LISTS PLUGINS)
    list(APPEND libraries ${library}=${plugins}/lib${library}.so)
  endforeach()
  set(abi ${SOURCE_DIR}/tests/abi)
  run(${PYTHON} ${abi}/check_symbols.py ${abi} ${libraries})
  message(STATUS "${output}")
endif()
message(STATUS "installed, moved, built against from outside, loaded and run")
