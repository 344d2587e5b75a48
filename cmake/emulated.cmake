# SPDX-License-Identifier: Apache-2.0
# AVX-512 on any x86-64, for tests: src/kernels/*_avx512*.c compiled a second time with
# WF_EMULATE_AVX512=1 and AVX2 flags, so that kernels/simd_x86.h takes SIMDe's aliases. Two forms:
#   beside   a file that names what it defines through WF_KERNEL(name) yields name_emu; the objects are
#            linked into the kernel tests beside the real ones, and WF_HAVE_EMULATED_AVX512 tells the
#            tests that those names exist;
#   instead  any other file's object is linked before the library and so takes the real one's place, in
#            each test that asks for WF_EMULATE_AVX512, built again as x_test_emu.
file(GLOB avx512_files CONFIGURE_DEPENDS src/kernels/*_avx512*.c)
find_path(SIMDE_INCLUDE simde/x86/avx512.h)
set(emulated_instead FALSE)
if(WEFT_EMULATE AND avx512_files AND SIMDE_INCLUDE AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  # Source properties belong to a folder, not to a target, so each file gets a twin that includes it.
  set(beside)
  set(instead)
  set(replaced)
  foreach(file ${avx512_files})
    get_filename_component(name ${file} NAME_WE)
    set(twin ${CMAKE_BINARY_DIR}/emulated/${name}_emu.c)
    file(CONFIGURE OUTPUT ${twin} CONTENT "#include \"kernels/${name}.c\"\n")
    # The AVX2 form of the same code is sanitized; the emulation's would take minutes to compile.
    set_source_files_properties(${twin} PROPERTIES COMPILE_OPTIONS "-fno-sanitize=all")
    file(STRINGS ${file} renamed REGEX "WF_KERNEL\\(")
    if(renamed)
      list(APPEND beside ${twin})
    else()
      list(APPEND instead ${twin})
      list(APPEND replaced ${file})
    endif()
  endforeach()
  set(avx2_flags -mavx2 -mfma -mf16c -mbmi2 -Wno-psabi
    -O1) # SIMDe at -O2 takes minutes a file
  if(beside)
    add_library(wf_kernels_emulated STATIC ${beside})
    target_link_libraries(wf_kernels_emulated PUBLIC wf_kernels)
    target_compile_definitions(wf_kernels_emulated PRIVATE WF_EMULATE_AVX512=1
      INTERFACE WF_HAVE_EMULATED_AVX512=1)
    target_compile_options(wf_kernels_emulated PRIVATE ${avx2_flags})
  endif()
  if(instead)
    set(emulated_instead TRUE)
    add_library(wf_kernels_emu_files OBJECT ${instead})
    target_link_libraries(wf_kernels_emu_files PRIVATE weft_flags)
    target_compile_definitions(wf_kernels_emu_files PRIVATE WF_EMULATE_AVX512=1)
    target_compile_options(wf_kernels_emu_files PRIVATE ${avx2_flags})
  endif()
endif()

# weft_emulated_test(NAME FILE): FILE once more as NAME_emu, if it asks for the emulation.
function(weft_emulated_test name file)
  file(STRINGS ${file} asks REGEX "WF_EMULATE_AVX512")
  if(NOT emulated_instead OR NOT asks)
    return()
  endif()
  add_executable(${name}_emu ${file} $<TARGET_OBJECTS:wf_kernels_emu_files>)
  target_include_directories(${name}_emu PRIVATE tests)
  target_compile_definitions(${name}_emu PRIVATE WEFT_SOURCE_DIR="${CMAKE_SOURCE_DIR}" WF_EMULATE_AVX512=1)
  target_link_libraries(${name}_emu PRIVATE wf_kernels PkgConfig::CMOCKA)
  if(TARGET wf_kernels_emulated)
    target_link_libraries(${name}_emu PRIVATE wf_kernels_emulated)
  endif()
  add_test(NAME kernels/${name}_emu COMMAND ${name}_emu)
  set_tests_properties(kernels/${name}_emu PROPERTIES TIMEOUT 300 LABELS "kernels;emulated")
endfunction()
