# What `cmake --install` lays down: libraries, plug-ins, headers, and the files by which CMake and
# pkg-config find them, under ggml's name and under ours. Nothing in them depends on where the prefix is.
include(CMakePackageConfigHelpers)

heddle_built_backends(built_in built-in)
install(TARGETS ggml-base ggml ${built_in} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
                                           ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})

# Plug-ins lie in a directory of this very version. In a static build they are ordinary libraries.
set(plugin_dir ${CMAKE_INSTALL_LIBDIR}/${HEDDLE_PLUGIN_SUBDIRECTORY})
if(GGML_BACKEND_DIR)
  set(plugin_dir ${GGML_BACKEND_DIR})
endif()
# Those that programs may link lie with the libraries; the plug-in is a link to it.
set(linkable_plugins "")
heddle_built_backends(plugins found request)
foreach(plugin IN LISTS plugins)
  string(REGEX REPLACE "^ggml-" "" name ${plugin})
  set(place ${plugin_dir})
  if(heddle_${name}_linked)
    list(APPEND linkable_plugins ${plugin})
    set(place ${CMAKE_INSTALL_LIBDIR})
  endif()
  set_target_properties(${plugin} PROPERTIES INSTALL_RPATH "$ORIGIN;$ORIGIN/../..")
  install(TARGETS ${plugin} LIBRARY DESTINATION ${place} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  if(heddle_${name}_linked AND BUILD_SHARED_LIBS)
    get_filename_component(from ${plugin_dir} ABSOLUTE BASE_DIR ${CMAKE_INSTALL_PREFIX})
    get_filename_component(to ${CMAKE_INSTALL_LIBDIR} ABSOLUTE BASE_DIR ${CMAKE_INSTALL_PREFIX})
    file(RELATIVE_PATH path ${from} ${to}/lib${plugin}.so.${PROJECT_VERSION})
    file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/plugins)
    file(CREATE_LINK ${path} ${PROJECT_BINARY_DIR}/plugins/lib${plugin}.so SYMBOLIC)
    install(FILES ${PROJECT_BINARY_DIR}/plugins/lib${plugin}.so DESTINATION ${plugin_dir})
  endif()
endforeach()
if(TARGET heddle)
  install(TARGETS heddle RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

# The public headers; what plug-ins compile in lies in a place of its own.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        PATTERN plugin EXCLUDE)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/plugin DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/heddle)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

# A model to begin with, the examples, and the documentation as pages for a browser.
set(data_dir ${CMAKE_INSTALL_DATADIR}/heddle)
install(FILES ${PROJECT_SOURCE_DIR}/data/tales-7m-q8_0.gguf DESTINATION ${data_dir})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples DESTINATION ${data_dir})
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
  file(GLOB pages CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/*)
  set(html ${PROJECT_BINARY_DIR}/share/html)
  add_custom_command(OUTPUT ${html}/index.html
                     COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/pages/docs_html.py ${PROJECT_SOURCE_DIR} ${html}
                     DEPENDS ${pages} ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/tools/pages/docs_html.py
                     COMMENT "Writing the documentation as HTML")
  add_custom_target(heddle_docs ALL DEPENDS ${html}/index.html)
  install(DIRECTORY ${html} DESTINATION ${CMAKE_INSTALL_DOCDIR})
endif()

# heddle_outside_libraries: what a static library of ours needs from others.
function(heddle_outside_libraries target result)
  get_target_property(linked ${target} LINK_LIBRARIES)
  set(outside "")
  foreach(library IN LISTS linked)
    if(library MATCHES "^PkgConfig::(.*)")
      set(library ${${CMAKE_MATCH_1}_LDFLAGS})
    elseif(library MATCHES "^(ggml|heddle_)")
      continue()
    endif()
    list(APPEND outside ${library})
  endforeach()
  list(REMOVE_DUPLICATES outside)
  set(${result} "${outside}" PARENT_SCOPE)
endfunction()

# As ggml::ggml does, pkg-config names all libraries: programs call into each.
set(outside_libraries "")  # lines of ggml-config.cmake
set(libraries_of_pkg_config "")
set(last "")
if(NOT BUILD_SHARED_LIBS)
  foreach(target IN LISTS linkable_plugins)
    heddle_outside_libraries(${target} needs)
    string(APPEND outside_libraries "set(_ggml_${target}_needs \"${needs};stdc++;m\")\n")
  endforeach()
endif()
foreach(target IN ITEMS ggml LISTS built_in ITEMS ggml-base)
  list(APPEND libraries_of_pkg_config -l${target})
  if(NOT BUILD_SHARED_LIBS)
    heddle_outside_libraries(${target} needs)
    list(APPEND needs stdc++ m)  # C programs may be linked by a C compiler
    string(APPEND outside_libraries "set(_ggml_${target}_needs \"${needs}\")\n")
    list(APPEND last ${needs})
  endif()
endforeach()
if(NOT BUILD_SHARED_LIBS)
  list(REMOVE_ITEM last Threads::Threads stdc++ m dl)
  list(REMOVE_DUPLICATES last)
  list(APPEND last stdc++ m dl pthread)
  list(TRANSFORM last PREPEND -l REGEX "^[^/-]")
endif()
list(JOIN libraries_of_pkg_config " " libraries_of_pkg_config)
list(JOIN last " " last)
string(STRIP "${libraries_of_pkg_config} ${last}" libraries_of_pkg_config)

# Programs read what the library was built with from variables that begin with GGML_.
set(GGML_VERSION ${PROJECT_VERSION})
set(GGML_SHARED_LIB ${BUILD_SHARED_LIBS})
set(GGML_BACKEND_DL OFF)
set(GGML_OPENMP_ENABLED OFF)
set(GGML_SCHED_NO_REALLOC OFF)
set(GGML_AVAILABLE_BACKENDS ${built_in})
# The last two are backends of ggml that are no plug-ins.
foreach(backend IN LISTS HEDDLE_KNOWN_BACKENDS ITEMS webgpu zdnn)
  string(TOUPPER GGML_${backend} variable)
  if(ggml-${backend} IN_LIST built_in)
    set(${variable} ON)
  else()
    set(${variable} OFF)
  endif()
endforeach()
get_cmake_property(variables VARIABLES)
list(FILTER variables INCLUDE REGEX "^GGML_")
set(ggml_variables "")
foreach(variable IN LISTS variables)
  string(APPEND ggml_variables "set(${variable} \"${${variable}}\")\n")
endforeach()

# heddle_package: the files by which CMake and pkg-config find package `name`.
function(heddle_package name)
  set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/${name})
  configure_package_config_file(
    ${PROJECT_SOURCE_DIR}/cmake/${name}-config.cmake.in ${PROJECT_BINARY_DIR}/${name}-config.cmake
    INSTALL_DESTINATION ${package_dir}
    PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_BINDIR plugin_dir data_dir)
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/${name}-config-version.cmake
                                   VERSION ${PROJECT_VERSION} COMPATIBILITY SameMajorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/${name}-config.cmake
                ${PROJECT_BINARY_DIR}/${name}-config-version.cmake
          DESTINATION ${package_dir})

  configure_file(${PROJECT_SOURCE_DIR}/cmake/${name}.pc.in ${PROJECT_BINARY_DIR}/${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()

# Directories as pkg-config files name them: from where the file lies to the prefix, and from there on.
if(IS_ABSOLUTE ${CMAKE_INSTALL_LIBDIR})
  set(pc_prefix ${CMAKE_INSTALL_PREFIX})
else()
  file(RELATIVE_PATH pc_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
  string(REGEX REPLACE "/$" "" pc_prefix "\${pcfiledir}/${pc_prefix}")
endif()
function(heddle_pc_directory name path)
  if(NOT IS_ABSOLUTE ${path})
    set(path "\${prefix}/${path}")
  endif()
  set(pc_${name} ${path} PARENT_SCOPE)
endfunction()
heddle_pc_directory(includedir ${CMAKE_INSTALL_INCLUDEDIR})
heddle_pc_directory(libdir ${CMAKE_INSTALL_LIBDIR})
heddle_pc_directory(bindir ${CMAKE_INSTALL_BINDIR})
heddle_pc_directory(plugindir ${plugin_dir})

heddle_package(ggml)
heddle_package(heddle)
