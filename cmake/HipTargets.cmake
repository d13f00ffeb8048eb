# Executables with HIP code, and tests that run once for each target.

if(CMAKE_HIP_COMPILER_VERSION VERSION_LESS 20)
  message(FATAL_ERROR "clang ${CMAKE_HIP_COMPILER_VERSION} is too old: gfx950 needs version 20 or newer")
endif()

# waveattn_warnings: what our own code compiles with.
add_library(waveattn_warnings INTERFACE)
target_compile_options(waveattn_warnings INTERFACE -Wall -Wextra $<$<BOOL:${WAVEATTN_WERROR}>:-Werror>
  # A kernel's unrolling pragma that the optimiser declines is seen in isa_report, not as a warning.
  $<$<COMPILE_LANGUAGE:HIP>:-Wno-pass-failed>)

# waveattn_runtime: the HIP runtime that executables link, ROCm's or the emulator.
function(waveattn_find_runtime)
  add_library(waveattn_runtime INTERFACE)
  if(WAVEATTN_HIP_FLAVOUR STREQUAL "system")
    find_package(hip REQUIRED CONFIG HINTS ${WAVEATTN_ROCM_ROOT})
    target_link_libraries(waveattn_runtime INTERFACE hip::host)
  elseif(TARGET waveattn::emulator)
    target_link_libraries(waveattn_runtime INTERFACE waveattn::emulator)
  endif()
  # Where tests run: on a GPU where the kernel driver is present, else on the emulator.
  set(_device emulator)
  if(WAVEATTN_HIP_FLAVOUR STREQUAL "system" AND EXISTS /dev/kfd)
    set(_device gpu)
  endif()
  set(WAVEATTN_TEST_DEVICE ${_device} CACHE STRING "Where the tests run: emulator or gpu")
endfunction()

# waveattn_built_targets(OUT gfx...): those of the targets that this build has, in the order given.
function(waveattn_built_targets out)
  set(built "")
  foreach(target ${ARGN})
    if(target IN_LIST CMAKE_HIP_ARCHITECTURES)
      list(APPEND built ${target})
    endif()
  endforeach()
  set(${out} ${built} PARENT_SCOPE)
endfunction()

# waveattn_add_hip_executable(NAME SOURCES... [TARGETS gfx...]): all .hip and .cpp sources; TARGETS limits the code
# objects to those of WAVEATTN_ARCHS that are named.
function(waveattn_add_hip_executable name)
  cmake_parse_arguments(ARG "" "" "TARGETS" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE waveattn::waveattn waveattn_warnings waveattn_runtime)
  set_target_properties(${name} PROPERTIES HIP_STANDARD 20 HIP_STANDARD_REQUIRED ON CXX_STANDARD 20 LINKER_LANGUAGE CXX)
  if(ARG_TARGETS)
    waveattn_built_targets(targets ${ARG_TARGETS})
    set_target_properties(${name} PROPERTIES HIP_ARCHITECTURES "${targets}")
  endif()
endfunction()

# waveattn_add_hip_test(NAME SOURCES... [TARGETS gfx...] [LABELS ...] [TIMEOUT s] [ENVIRONMENT A=B...]): a doctest
# executable, run once for each target on the emulated device of that name (test NAME.gfx...), or once on the GPU at hand (test NAME.gpu).
function(waveattn_add_hip_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "TARGETS;LABELS;ENVIRONMENT" ${ARGN})
  if(NOT ARG_TARGETS)
    set(ARG_TARGETS ${CMAKE_HIP_ARCHITECTURES})
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 600)
  endif()
  waveattn_built_targets(targets ${ARG_TARGETS})
  if(NOT targets)
    return()
  endif()
  waveattn_add_hip_executable(${name} ${ARG_UNPARSED_ARGUMENTS} TARGETS ${targets})
  target_link_libraries(${name} PRIVATE waveattn_test_main)
  if(WAVEATTN_TEST_DEVICE STREQUAL "gpu")
    add_test(NAME ${name}.gpu COMMAND ${name})
    set_tests_properties(${name}.gpu PROPERTIES LABELS "gpu;${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT} ENVIRONMENT "${ARG_ENVIRONMENT}")
    return()
  endif()
  foreach(target ${targets})
    add_test(NAME ${name}.${target} COMMAND ${name})
    set_tests_properties(${name}.${target} PROPERTIES LABELS "${target};${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT}
      ENVIRONMENT "GFXEMU_DEVICES=${target};LD_LIBRARY_PATH=$<TARGET_FILE_DIR:waveattn::emulator>;${ARG_ENVIRONMENT}")
  endforeach()
endfunction()
