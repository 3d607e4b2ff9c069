# `make package`: a Debian package of all that `cmake --install` lays down.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME heddle)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "tensor graphs across every compute device of a machine")
set(CPACK_PACKAGE_DESCRIPTION "Heddle runs one tensor graph on all processors and accelerators that a
machine has. It has the C interface of ggml 0.21, so programs written for that run on it unmodified.
This package has the libraries, headers, CMake and pkg-config files, and the program heddle.")
set(CPACK_PACKAGE_CONTACT "The Heddle authors <authors@heddle.invalid>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_STRIP_FILES ON)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
# It takes the place of other libraries of these names.
set(CPACK_DEBIAN_PACKAGE_CONFLICTS "libggml0, libggml-dev")
if(HEDDLE_SHLIBDEPS)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/lib)
endif()
include(CPack)
