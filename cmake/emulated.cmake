# SPDX-License-Identifier: Apache-2.0
# AVX-512 on any x86-64, for tests: each src/kernels/*_avx512*.c is compiled a second time with
# WF_EMULATE_AVX512=1 and AVX2 flags; kernels/simd_x86.h then takes SIMDe's aliases, and WF_KERNEL(name)
# names what the file defines name_emu. The objects are linked into the kernel tests beside the real
# ones; WF_HAVE_EMULATED_AVX512 tells the tests that the _emu names exist.
file(GLOB avx512_files CONFIGURE_DEPENDS src/kernels/*_avx512*.c)
find_path(SIMDE_INCLUDE simde/x86/avx512.h)
if(avx512_files AND SIMDE_INCLUDE AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  # Source properties belong to a folder, not to a target, so each file gets a twin that includes it.
  set(twins)
  foreach(file ${avx512_files})
    get_filename_component(name ${file} NAME_WE)
    set(twin ${CMAKE_BINARY_DIR}/emulated/${name}_emu.c)
    file(CONFIGURE OUTPUT ${twin} CONTENT "#include \"kernels/${name}.c\"\n")
    list(APPEND twins ${twin})
  endforeach()
  add_library(wf_kernels_emulated STATIC ${twins})
  target_link_libraries(wf_kernels_emulated PUBLIC wf_kernels)
  target_compile_definitions(wf_kernels_emulated PRIVATE WF_EMULATE_AVX512=1
    INTERFACE WF_HAVE_EMULATED_AVX512=1)
  target_compile_options(wf_kernels_emulated PRIVATE -mavx2 -mfma -mf16c -mbmi2 -Wno-psabi)
endif()
