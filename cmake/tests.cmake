# SPDX-License-Identifier: Apache-2.0
# Tests beside those of the layers: fuzz targets with their corpora, and the layout tests.

get_property(weft_layers GLOBAL PROPERTY WEFT_LAYERS)
set(layers_top_first ${weft_layers})
list(REVERSE layers_top_first)

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

# tests/backend/x_tool.c: programs that end-to-end tests drive, as backend_x_tool.
file(GLOB tool_files CONFIGURE_DEPENDS tests/backend/*_tool.c)
foreach(file ${tool_files})
  get_filename_component(tool ${file} NAME_WE)
  if(TARGET wf_backend)
    add_executable(backend_${tool} ${file})
    target_include_directories(backend_${tool} PRIVATE tests)
    target_link_libraries(backend_${tool} PRIVATE wf_backend)
  endif()
endforeach()

# tests/bench/x_bench.c: figures of one kernel family, built on request (ninja x_bench).
file(GLOB bench_files CONFIGURE_DEPENDS tests/bench/*_bench.c)
foreach(file ${bench_files})
  get_filename_component(bench ${file} NAME_WE)
  add_executable(${bench} EXCLUDE_FROM_ALL ${file})
  target_include_directories(${bench} PRIVATE tests)
  target_link_libraries(${bench} PRIVATE weft_flags ${layers_top_first} m)
endforeach()

# What conversations promise holds on ONNX Runtime too: the same programs once more.
foreach(test race_test answer_test generation_test states_test)
  if(TARGET ${test})
    add_test(NAME engine/${test}_on_ort COMMAND ${test})
    set_tests_properties(engine/${test}_on_ort PROPERTIES TIMEOUT 120 LABELS engine SKIP_RETURN_CODE 77
      ENVIRONMENT WEFT_TEST_BACKEND=ort)
  endif()
endforeach()

# Where ONNX Runtime's own header is found, src/backend/ort/ort_abi.h is held to it while compiling.
set(ORT_HEADER "" CACHE FILEPATH "onnxruntime_c_api.h, to check weft's declarations of its ABI against")
if(ORT_HEADER)
  get_filename_component(ort_include ${ORT_HEADER} DIRECTORY)
else()
  find_path(ort_include onnxruntime_c_api.h PATH_SUFFIXES onnxruntime onnxruntime/core/session)
endif()
if(ort_include)
  add_library(ort_header_check OBJECT tests/backend/ort_header_check.c)
  target_include_directories(ort_header_check SYSTEM PRIVATE ${ort_include})
  target_link_libraries(ort_header_check PRIVATE weft_flags)
endif()
