# waveattn_add_listings(TARGET DIRECTORY): after TARGET is linked, writes the disassembly listings of the device code in it
# to DIRECTORY/<TARGET>.gfxlst, so that the emulator runs it without a disassembler. Needs the target gfxemu-listing and
# LLVM's llvm-objdump at build time. The emulator searches `listings/` beside its library, GFXEMU_LISTINGS and the
# directories given to gfxemu_add_listings().
function(waveattn_add_listings target directory)
    if(NOT TARGET gfxemu-listing)
        message(FATAL_ERROR "waveattn_add_listings(${target}): the emulator's tool gfxemu-listing is not built here")
    endif()
    add_dependencies(${target} gfxemu-listing)
    add_custom_command(TARGET ${target} POST_BUILD
        COMMAND gfxemu-listing ${directory} ${target} $<TARGET_FILE:${target}>
        COMMENT "Disassembly listings of ${target}" VERBATIM)
endfunction()
