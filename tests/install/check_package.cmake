# Makes the Debian package and looks into it.
include(${CMAKE_CURRENT_LIST_DIR}/common.cmake)
set(stage ${BUILD_DIR}/package-check)
file(REMOVE_RECURSE ${stage})

run(${CMAKE_CPACK_COMMAND} -G DEB --config ${BUILD_DIR}/CPackConfig.cmake -B ${stage})
file(GLOB package ${stage}/*.deb)
list(LENGTH package count)
if(NOT count EQUAL 1)
  message(FATAL_ERROR "${count} packages: ${package}")
endif()

run(${DPKG_DEB} --field ${package})
expect("${output}" "Package: heddle\n")
expect("${output}" "Version: ${VERSION}\n")
expect("${output}" "Depends: [^\n]*libc6")
expect("${output}" "Description: [^\n]+\n")

run(${DPKG_DEB} --contents ${package})
foreach(file IN LISTS installed_files)
  string(REGEX REPLACE "([.+])" "\\\\\\1" expression ${file})
  string(REGEX REPLACE "heddle\\\\.1$" "heddle\\\\.1(\\\\.gz)?" expression "${expression}")
  expect("${output}" " \\./usr/${expression}( |\n)")
endforeach()
expect(NOT "${BUILD_DIR}" "${output}")

# What it lays down works from where it is put.
run(${DPKG_DEB} --extract ${package} ${stage}/root)
if(EXISTS ${stage}/root/usr/bin/heddle)
  run(${stage}/root/usr/bin/heddle devices)
  expect("${output}" "CPU")
endif()
message(STATUS "${package} has what it must")
