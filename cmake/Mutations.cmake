# Mutation checks: proof that a test fails when the code it covers is wrong.
#
# waveattn_add_mutation(NAME SOURCES test.hip... HEADER waveattn/... FROM "text" TO "text"
#                       [CASES "pattern"] [TARGETS gfx...] [LABELS ...] [ENVIRONMENT A=B...] [TIMEOUT s])
#
# Copies HEADER (a path under include/), replaces every FROM in the copy by TO, and compiles the test against that copy
# instead. The test mutation.NAME.<target> passes where the mutated executable runs and reports failed checks. CMake
# stops where FROM is not in the header, so that a mutation cannot go stale. CASES selects test cases of the executable
# (doctest's --test-case), TARGETS the targets (default: the first of the build that is in the list).
set(WAVEATTN_MUTATION_RUNNER ${CMAKE_CURRENT_LIST_DIR}/run_mutation.cmake)

function(waveattn_add_mutation name)
  # PARSE_ARGV: the texts may hold semicolons.
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "HEADER;FROM;TO;CASES;TIMEOUT" "SOURCES;TARGETS;LABELS;ENVIRONMENT")
  if(NOT ARG_SOURCES OR NOT ARG_HEADER OR NOT ARG_FROM OR ARG_FROM STREQUAL "${ARG_TO}" OR ARG_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "mutation ${name}: wrong arguments")
  endif()
  if(NOT ARG_TARGETS)
    list(GET CMAKE_HIP_ARCHITECTURES 0 ARG_TARGETS)
  endif()
  waveattn_built_targets(targets ${ARG_TARGETS})
  # On a GPU a broken kernel may hang the machine or pass by luck: mutations run on the emulator only.
  if(NOT targets OR NOT WAVEATTN_TEST_DEVICE STREQUAL "emulator")
    return()
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()

  set(original ${PROJECT_SOURCE_DIR}/include/${ARG_HEADER})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${original})
  file(READ ${original} text)
  string(FIND "${text}" "${ARG_FROM}" found)
  if(found EQUAL -1)
    message(FATAL_ERROR "mutation ${name}: '${ARG_FROM}' is not in ${ARG_HEADER}")
  endif()
  string(REPLACE "${ARG_FROM}" "${ARG_TO}" text "${text}")
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/mutations/${name})
  file(CONFIGURE OUTPUT ${folder}/${ARG_HEADER} CONTENT "@text@" @ONLY)

  set(executable mutation_${name})
  waveattn_add_hip_executable(${executable} ${ARG_SOURCES} TARGETS ${targets})
  target_include_directories(${executable} BEFORE PRIVATE ${folder})
  target_link_libraries(${executable} PRIVATE waveattn_test_main)
  foreach(target ${targets})
    add_test(NAME mutation.${name}.${target}
      COMMAND ${CMAKE_COMMAND} -D EXECUTABLE=$<TARGET_FILE:${executable}> -D "CASES=${ARG_CASES}" -P ${WAVEATTN_MUTATION_RUNNER})
    set_tests_properties(mutation.${name}.${target} PROPERTIES LABELS "${target};mutation;${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT}
      ENVIRONMENT "GFXEMU_DEVICES=${target};LD_LIBRARY_PATH=$<TARGET_FILE_DIR:waveattn::emulator>;${ARG_ENVIRONMENT}")
  endforeach()
endfunction()
