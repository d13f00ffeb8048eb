# Chooses the HIP compiler and the HIP declarations. Include it after project(... CXX) and before enable_language(HIP).
#
# WAVEATTN_HIP = system   a ROCm installation: CMake's own detection finds clang, headers and device libraries
#                bundled  a bare clang >= 20 with lld and waveattn's own HIP declarations; no ROCm needed
#                auto     system where a ROCm installation is found, else bundled
# Sets WAVEATTN_HIP_FLAVOUR to system or bundled.

set(WAVEATTN_HIP_FLAVOUR ${WAVEATTN_HIP})
if(NOT WAVEATTN_HIP MATCHES "^(auto|system|bundled)$")
  message(FATAL_ERROR "WAVEATTN_HIP must be auto, system or bundled, not '${WAVEATTN_HIP}'")
endif()
if(WAVEATTN_HIP STREQUAL "auto")
  find_path(WAVEATTN_ROCM_ROOT NAMES lib/cmake/hip-lang/hip-lang-config.cmake
    PATHS ENV ROCM_PATH ENV HIP_PATH ${CMAKE_PREFIX_PATH} /opt/rocm
    NO_DEFAULT_PATH DOC "ROCm installation")
  if(WAVEATTN_ROCM_ROOT OR CMAKE_HIP_COMPILER_ROCM_ROOT)
    set(WAVEATTN_HIP_FLAVOUR system)
  else()
    set(WAVEATTN_HIP_FLAVOUR bundled)
  endif()
endif()

if(NOT DEFINED CMAKE_HIP_ARCHITECTURES)
  set(CMAKE_HIP_ARCHITECTURES ${WAVEATTN_ARCHS})
endif()

if(WAVEATTN_HIP_FLAVOUR STREQUAL "bundled")
  # CMake's HIP language wants a ROCm root; one empty file is enough of it.
  if(NOT CMAKE_HIP_COMPILER)
    find_program(CMAKE_HIP_COMPILER NAMES clang++-22 clang++-21 clang++-20 clang++
      DOC "clang with the AMDGPU target, version 20 or newer")
  endif()
  if(NOT CMAKE_HIP_COMPILER)
    message(FATAL_ERROR "No HIP compiler: install clang >= 20 and the matching lld (Debian: clang-22 lld-22), or ROCm")
  endif()
  set(CMAKE_HIP_PLATFORM amd)
  set(CMAKE_HIP_COMPILER_ROCM_ROOT "${CMAKE_BINARY_DIR}/hip-lang-stub")
  file(WRITE "${CMAKE_HIP_COMPILER_ROCM_ROOT}/lib/cmake/hip-lang/hip-lang-config.cmake" "")
  # -no-hip-rt: CMake identifies the compiler by linking a program, and there is no runtime to link yet.
  set(CMAKE_HIP_FLAGS_INIT "-nogpuinc -nogpulib -no-hip-rt -Wno-unused-command-line-argument")
  target_compile_definitions(waveattn INTERFACE WAVEATTN_BUNDLED_HIP)
endif()
message(STATUS "waveattn: ${WAVEATTN_HIP_FLAVOUR} HIP declarations, targets ${CMAKE_HIP_ARCHITECTURES}")
