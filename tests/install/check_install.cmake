# Installs the build, then builds the example plug-in and a client against the result.
set(stage ${BUILD_DIR}/install-check)
file(REMOVE_RECURSE ${stage})

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${ARGN}\n${output}")
  endif()
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${stage}/prefix)
foreach(project plugin client)
  set(source ${SOURCE_DIR}/tests/install/client)
  if(project STREQUAL plugin)
    # A copy far from the tree, so that nothing of it can be found by accident.
    file(COPY ${SOURCE_DIR}/examples/plugin DESTINATION ${stage})
    set(source ${stage}/plugin)
  endif()
  run(${CMAKE_COMMAND} -S ${source} -B ${stage}/build-${project} -DCMAKE_PREFIX_PATH=${stage}/prefix
      -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_COMPILER=${C_COMPILER} -DCMAKE_CXX_COMPILER=${CXX_COMPILER})
  run(${CMAKE_COMMAND} --build ${stage}/build-${project})
endforeach()
run(${stage}/build-client/client)

# The plug-in loads, computes and unloads: the same test as for the one built in the tree.
run(${CMAKE_COMMAND} -E env PLAIN_BACKEND=${stage}/build-plugin/libggml-plain.so ${CHECK})
message(STATUS "installed, built against from outside, loaded and run")
