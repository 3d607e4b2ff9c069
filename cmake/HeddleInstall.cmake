# What `cmake --install` lays down: libraries, headers, the program, and the package files by which
# programs that look for ggml find us.
include(CMakePackageConfigHelpers)

set(libraries ggml-base ggml ${HEDDLE_BACKENDS})
install(TARGETS ${libraries} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
                             ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET ggml-sim)
  install(TARGETS ggml-sim LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
                           ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(TARGET heddle)
  install(TARGETS heddle RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

# The public headers; what plug-ins compile in lies in a place of its own.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        PATTERN plugin EXCLUDE)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/plugin DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/heddle)

string(REPLACE ";" " " GGML_AVAILABLE_BACKENDS "${HEDDLE_BACKENDS}")
if(TARGET ggml-blas)
  set(HEDDLE_HAS_BLAS ON)
else()
  set(HEDDLE_HAS_BLAS OFF)
endif()
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ggml)
configure_package_config_file(
  ${CMAKE_CURRENT_LIST_DIR}/ggml-config.cmake.in ${CMAKE_BINARY_DIR}/ggml-config.cmake
  INSTALL_DESTINATION ${package_dir}
  PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/ggml-config-version.cmake
                                 VERSION ${PROJECT_VERSION} COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_BINARY_DIR}/ggml-config.cmake ${CMAKE_BINARY_DIR}/ggml-config-version.cmake
        DESTINATION ${package_dir})

configure_file(${CMAKE_CURRENT_LIST_DIR}/ggml.pc.in ${CMAKE_BINARY_DIR}/ggml.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/ggml.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
