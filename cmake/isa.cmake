# SPDX-License-Identifier: Apache-2.0
# Each instruction-set file of src/kernels is built with its own flags and holds nothing else; the
# suffix of its name says which.
file(GLOB kernel_files CONFIGURE_DEPENDS src/kernels/*.c)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  set(foreign "_avx[0-9a-z]*\\.c$")
else()
  set(foreign "_neon[a-z]*\\.c$")
endif()
foreach(file ${kernel_files})
  if(file MATCHES "${foreign}")
    set_source_files_properties(${file} PROPERTIES HEADER_FILE_ONLY TRUE) # another machine's: not built
  elseif(file MATCHES "_avx2\\.c$")
    set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS "-mavx2;-mfma;-mf16c;-mbmi2")
  elseif(file MATCHES "_avx512\\.c$")
    set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS
      "-mavx2;-mfma;-mf16c;-mbmi2;-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl")
  elseif(file MATCHES "_avx512vnni\\.c$")
    set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS
      "-mavx2;-mfma;-mf16c;-mbmi2;-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mavx512vnni")
  elseif(file MATCHES "_avx512bf16\\.c$")
    set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS
      "-mavx2;-mfma;-mf16c;-mbmi2;-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mavx512vnni;-mavx512bf16")
  elseif(file MATCHES "_neondot\\.c$" AND CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
    set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS "-march=armv8.2-a+dotprod+fp16")
  endif()
endforeach()

# Thousands of inlined vector operations take minutes a file under every sanitizer at once, so these keep
# AddressSanitizer alone; what an AVX-512 file does is asked of its emulation.
if(WEFT_SANITIZE)
  foreach(file ${kernel_files})
    if(file MATCHES "_avx2\\.c$")
      set_property(SOURCE ${file} APPEND PROPERTY COMPILE_OPTIONS "-fno-sanitize=undefined"
        $<$<BOOL:${WEFT_FUZZ}>:-fno-sanitize=fuzzer-no-link>)
    elseif(file MATCHES "_avx512[a-z0-9]*\\.c$")
      set_property(SOURCE ${file} APPEND PROPERTY COMPILE_OPTIONS "-fno-sanitize=all"
        $<$<BOOL:${WEFT_FUZZ}>:-fno-sanitize=fuzzer-no-link>)
    endif()
  endforeach()
endif()
