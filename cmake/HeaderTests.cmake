# Generated tests of the public headers.
#
# waveattn_add_header_tests() makes object libraries, which fail to build where a header is not self-contained:
#   header_tests_host      each header alone, by the host compiler
#   header_tests_hip       each header alone, by the HIP compiler for one target (parsing does not depend on it)
#   header_tests_targets   all headers together, for every target of the build and for targets without kernels
#   header_tests_real      all headers together with the real HIP headers of WAVEATTN_REAL_HIP_INCLUDE, where the build
#                          itself uses the bundled declarations
# Each header is included twice, which also tests its include guard.
function(waveattn_add_header_tests)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/header_tests)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/include/waveattn/*.h)
  set(host "")
  set(hip "")
  set(all "")
  foreach(header ${headers})
    string(MAKE_C_IDENTIFIER ${header} name)
    set(text "#include \"${header}\"\n#include \"${header}\"\n")
    string(APPEND all "#include \"${header}\"\n")
    foreach(language cpp hip)
      file(CONFIGURE OUTPUT ${folder}/${name}.${language} CONTENT "${text}" @ONLY)
    endforeach()
    list(APPEND host ${folder}/${name}.cpp)
    list(APPEND hip ${folder}/${name}.hip)
  endforeach()
  file(CONFIGURE OUTPUT ${folder}/all.hip CONTENT "${all}" @ONLY)

  list(GET CMAKE_HIP_ARCHITECTURES 0 one_target)
  set(every_target ${CMAKE_HIP_ARCHITECTURES} ${WAVEATTN_FOREIGN_TARGETS})
  add_library(header_tests_host OBJECT ${host})
  add_library(header_tests_hip OBJECT ${hip})
  add_library(header_tests_targets OBJECT ${folder}/all.hip)
  set_target_properties(header_tests_hip PROPERTIES HIP_ARCHITECTURES "${one_target}")
  set_target_properties(header_tests_targets PROPERTIES HIP_ARCHITECTURES "${every_target}")
  foreach(library header_tests_host header_tests_hip header_tests_targets)
    target_link_libraries(${library} PRIVATE waveattn::waveattn waveattn_warnings)
    target_compile_options(${library} PRIVATE -O0)
    set_target_properties(${library} PROPERTIES CXX_STANDARD 20 HIP_STANDARD 20)
  endforeach()

  if(WAVEATTN_HIP_FLAVOUR STREQUAL "bundled" AND WAVEATTN_REAL_HIP_INCLUDE)
    execute_process(COMMAND ${CMAKE_HIP_COMPILER} -print-resource-dir OUTPUT_VARIABLE resources OUTPUT_STRIP_TRAILING_WHITESPACE)
    add_library(header_tests_real OBJECT ${folder}/all.hip)
    target_include_directories(header_tests_real PRIVATE ${PROJECT_SOURCE_DIR}/include)
    # The second folder holds wrappers that the real headers expect from the compiler.
    target_include_directories(header_tests_real SYSTEM PRIVATE ${WAVEATTN_REAL_HIP_INCLUDE} ${resources})
    target_link_libraries(header_tests_real PRIVATE waveattn_warnings)
    target_compile_options(header_tests_real PRIVATE -O1) # not 0: unused parts of the real headers need device libraries
    set_target_properties(header_tests_real PROPERTIES HIP_STANDARD 20 HIP_ARCHITECTURES "${one_target}")
  elseif(WAVEATTN_HIP_FLAVOUR STREQUAL "bundled")
    message(STATUS "waveattn: headers are not tested with real HIP headers, for there are none (WAVEATTN_REAL_HIP_INCLUDE)")
  endif()
endfunction()
