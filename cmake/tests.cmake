# SPDX-License-Identifier: Apache-2.0
# Tests beside those of the layers: fuzz targets with their corpora, and the layout tests.

get_property(weft_layers GLOBAL PROPERTY WEFT_LAYERS)
set(layers_top_first ${weft_layers})
list(REVERSE layers_top_first)

# AVX-512 on any x86-64: each test of the kernels is built a second time as x_test_emu over
# wf_kernels_emulated, where the *_avx512*.c files are compiled with WF_EMULATE_AVX512=1 and AVX2 flags.
# kernels/simd_x86.h then takes SIMDe's native aliases instead of <immintrin.h>; the tests see the same
# macro and run the AVX-512 rows of each variant table whatever the CPU.
file(GLOB avx512_files CONFIGURE_DEPENDS src/kernels/*_avx512*.c)
find_path(SIMDE_INCLUDE simde/x86/avx512.h)
if(avx512_files AND SIMDE_INCLUDE AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  file(GLOB kernel_sources CONFIGURE_DEPENDS src/kernels/*.c)
  list(FILTER kernel_sources EXCLUDE REGEX "_avx512[a-z0-9]*\\.c$")
  # Source properties are a folder's, not a target's: the emulated files get their flags as a library.
  add_library(wf_kernels_avx512_emulated OBJECT)
  foreach(file ${avx512_files})
    get_filename_component(name ${file} NAME_WE)
    set(twin ${CMAKE_BINARY_DIR}/emulated/${name}_emu.c)
    file(CONFIGURE OUTPUT ${twin} CONTENT "#include \"kernels/${name}.c\"\n")
    target_sources(wf_kernels_avx512_emulated PRIVATE ${twin})
  endforeach()
  target_link_libraries(wf_kernels_avx512_emulated PRIVATE weft_flags)
  target_compile_definitions(wf_kernels_avx512_emulated PRIVATE WF_EMULATE_AVX512=1)
  target_compile_options(wf_kernels_avx512_emulated PRIVATE -mavx2 -mfma -mf16c -mbmi2 -Wno-psabi)
  add_library(wf_kernels_emulated STATIC ${kernel_sources} $<TARGET_OBJECTS:wf_kernels_avx512_emulated>)
  target_compile_definitions(wf_kernels_emulated PRIVATE WF_EMULATE_AVX512=1)
  target_link_libraries(wf_kernels_emulated PUBLIC wf_base)
  file(GLOB kernel_tests CONFIGURE_DEPENDS tests/kernels/*_test.c)
  foreach(test ${kernel_tests})
    get_filename_component(test_name ${test} NAME_WE)
    add_executable(${test_name}_emu ${test})
    target_include_directories(${test_name}_emu PRIVATE tests)
    target_compile_definitions(${test_name}_emu PRIVATE
      WEFT_SOURCE_DIR="${CMAKE_SOURCE_DIR}" WF_EMULATE_AVX512=1)
    target_link_libraries(${test_name}_emu PRIVATE wf_kernels_emulated PkgConfig::CMOCKA)
    add_test(NAME kernels/${test_name}_emu COMMAND ${test_name}_emu)
    set_tests_properties(kernels/${test_name}_emu PROPERTIES TIMEOUT 300 LABELS "kernels;emulated")
    list(APPEND emulated_tests ${test_name}_emu)
  endforeach()
  if(emulated_tests)
    add_custom_target(tests_kernels_emulated DEPENDS ${emulated_tests})
  endif()
endif()

# tests/fuzz/x_fuzz.c has LLVMFuzzerTestOneInput. x_fuzz_replay reads the files of tests/fuzz/corpus/x
# through it without any engine; with WEFT_FUZZ, x_fuzz is the libFuzzer program.
file(GLOB fuzz_files CONFIGURE_DEPENDS tests/fuzz/*_fuzz.c)
foreach(file ${fuzz_files})
  get_filename_component(target ${file} NAME_WE)
  string(REGEX REPLACE "_fuzz$" "" surface ${target})
  add_executable(${target}_replay ${file} tests/fuzz/replay_main.c)
  target_include_directories(${target}_replay PRIVATE tests)
  target_link_libraries(${target}_replay PRIVATE weft_flags ${layers_top_first})
  add_test(NAME fuzz/${target} COMMAND ${target}_replay ${CMAKE_SOURCE_DIR}/tests/fuzz/corpus/${surface})
  set_tests_properties(fuzz/${target} PROPERTIES TIMEOUT 120 LABELS fuzz)
  list(APPEND fuzz_replays ${target}_replay)
  if(WEFT_FUZZ)
    add_executable(${target} ${file})
    target_include_directories(${target} PRIVATE tests)
    target_link_libraries(${target} PRIVATE weft_flags ${layers_top_first})
    target_link_options(${target} PRIVATE -fsanitize=fuzzer)
  endif()
endforeach()
if(fuzz_replays)
  add_custom_target(tests_fuzz DEPENDS ${fuzz_replays})
endif()
