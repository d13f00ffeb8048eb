# Builds and runs the example as an application would: against an installed prefix with the emulator in it, or with
# waveattn as a subdirectory and a runtime of its own.
file(REMOVE_RECURSE ${FOLDER})
set(arguments -G ${GENERATOR} -DCMAKE_HIP_ARCHITECTURES=${TARGET} -DCMAKE_HIP_COMPILER=${HIP_COMPILER} -DWAVEATTN_HIP=bundled
  -DCMAKE_BUILD_TYPE=Release)
if(WAY STREQUAL "installed")
  foreach(component headers emulator)
    execute_process(COMMAND ${CMAKE_COMMAND} --install ${WAVEATTN_BUILD} --component ${component} --prefix ${FOLDER}/prefix
      COMMAND_ERROR_IS_FATAL ANY OUTPUT_QUIET)
  endforeach()
  list(APPEND arguments -DCMAKE_PREFIX_PATH=${FOLDER}/prefix)
else()
  list(APPEND arguments -DWAVEATTN_SOURCE=${WAVEATTN_SOURCE} -DHIP_RUNTIME=${RUNTIME})
endif()
execute_process(COMMAND ${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR} -B ${FOLDER}/build ${arguments} COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} --build ${FOLDER}/build COMMAND_ERROR_IS_FATAL ANY)
get_filename_component(runtime_folder ${RUNTIME} DIRECTORY)
set(ENV{LD_LIBRARY_PATH} ${runtime_folder})
set(ENV{GFXEMU_DEVICES} ${TARGET})
execute_process(COMMAND ${FOLDER}/build/fused_attention COMMAND_ERROR_IS_FATAL ANY)
