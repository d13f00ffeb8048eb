# Installs the headers and the package files for find_package(waveattn), and the emulator where it is built.
include(CMakePackageConfigHelpers)
set(_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/waveattn)
# Which HIP declarations a consumer uses is decided where it builds, so the exported target carries no define.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/waveattn DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT headers)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/waveattnConfig.cmake.in ${PROJECT_BINARY_DIR}/waveattnConfig.cmake
  INSTALL_DESTINATION ${_package_dir} PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/waveattnConfigVersion.cmake COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES ${PROJECT_BINARY_DIR}/waveattnConfig.cmake ${PROJECT_BINARY_DIR}/waveattnConfigVersion.cmake
  ${PROJECT_SOURCE_DIR}/cmake/HipToolchain.cmake
  DESTINATION ${_package_dir} COMPONENT headers)
if(TARGET waveattn::emulator)
  # Not among the libraries, where programs that mean ROCm's runtime would find it.
  install(FILES $<TARGET_FILE:waveattn::emulator> DESTINATION ${CMAKE_INSTALL_LIBDIR}/waveattn RENAME libamdhip64.so.7
    COMPONENT emulator)
endif()
