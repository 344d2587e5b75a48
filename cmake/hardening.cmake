# SPDX-License-Identifier: Apache-2.0
# Flags that say nothing about warnings: hardening, reproducibility, sanitizers, coverage.

# The same bytes from whatever folder: no path of the builder's machine in the result.
target_compile_options(weft_flags INTERFACE
  -ffile-prefix-map=${CMAKE_BINARY_DIR}=build -ffile-prefix-map=${CMAKE_SOURCE_DIR}=.)

if(WEFT_SANITIZE)
  target_compile_options(weft_flags INTERFACE
    -fsanitize=${WEFT_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g)
  target_link_options(weft_flags INTERFACE -fsanitize=${WEFT_SANITIZE})
elseif(WEFT_COVERAGE)
  target_compile_options(weft_flags INTERFACE --coverage -O0 -g)
  target_link_options(weft_flags INTERFACE --coverage)
else()
  target_compile_options(weft_flags INTERFACE -fstack-protector-strong -fstack-clash-protection
    $<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE> $<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=2>)
  target_link_options(weft_flags INTERFACE -Wl,-z,relro,-z,now -Wl,-z,noexecstack)
endif()
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64" AND NOT WEFT_SANITIZE)
  target_compile_options(weft_flags INTERFACE -fcf-protection)
endif()
if(WEFT_FUZZ)
  # Counters in every file, the engine itself in the fuzz targets alone (cmake/tests.cmake).
  target_compile_options(weft_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

include(CheckPIESupported)
check_pie_supported(LANGUAGES C)
