# SPDX-License-Identifier: Apache-2.0
# libweft from the layers' objects: shared with a versioned symbol list, static as one object whose
# hidden symbols are local, so that a program which links it never meets weft's internal names.
# Also what `make install` lays down.

get_property(weft_layers GLOBAL PROPERTY WEFT_LAYERS)
set(weft_deps PkgConfig::JANSSON PkgConfig::PCRE2 PkgConfig::UTF8PROC PkgConfig::YAML PkgConfig::MD Threads::Threads m ${CMAKE_DL_LIBS})
set(symbol_list ${CMAKE_SOURCE_DIR}/include/weft/weft.symbols)
if(NOT TARGET wf_engine OR CMAKE_CROSSCOMPILING)
  return()
endif()

set(layer_objects)
foreach(layer ${weft_layers})
  list(APPEND layer_objects $<TARGET_OBJECTS:${layer}>)
endforeach()

# weft.symbols has one name a line; WEFT_0 is the version node of docs/versioning.md.
set(version_script ${CMAKE_BINARY_DIR}/weft.map)
file(STRINGS ${symbol_list} symbols REGEX "^weft_")
list(JOIN symbols "; " joined)
file(CONFIGURE OUTPUT ${version_script} CONTENT "WEFT_0 { global: @joined@; local: *; };\n" @ONLY)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${symbol_list})

add_library(weft_shared SHARED ${layer_objects})
set_target_properties(weft_shared PROPERTIES OUTPUT_NAME weft LINKER_LANGUAGE C
  VERSION ${PROJECT_VERSION} SOVERSION 0 LINK_DEPENDS ${version_script})
target_link_libraries(weft_shared PRIVATE weft_flags ${weft_deps})
target_link_options(weft_shared PRIVATE -Wl,--version-script=${version_script})
if(NOT WEFT_SANITIZE AND NOT WEFT_FUZZ)
  target_link_options(weft_shared PRIVATE -Wl,-z,defs) # sanitizers leave their runtime to the program
endif()

if(NOT WEFT_SANITIZE AND NOT WEFT_COVERAGE)
  set(static_archive ${CMAKE_BINARY_DIR}/libweft.a)
  add_custom_command(OUTPUT ${static_archive}
    COMMAND ${CMAKE_LINKER} -r -o weft_all.o ${layer_objects}
    COMMAND ${CMAKE_OBJCOPY} --localize-hidden weft_all.o
    COMMAND ${CMAKE_COMMAND} -E rm -f ${static_archive}
    COMMAND ${CMAKE_AR} rcsD ${static_archive} weft_all.o
    DEPENDS ${weft_layers} ${layer_objects}
    WORKING_DIRECTORY ${CMAKE_BINARY_DIR} COMMAND_EXPAND_LISTS VERBATIM
    COMMENT "libweft.a: one object, hidden symbols local")
  add_custom_target(weft_static ALL DEPENDS ${static_archive})
endif()

# --- install -------------------------------------------------------------------------------------
if(TARGET weft)
  install(TARGETS weft RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(TARGETS weft_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET weft_static)
  install(FILES ${static_archive} DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
file(GLOB public_headers CONFIGURE_DEPENDS include/weft/*.h)
install(FILES ${public_headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/weft)

file(RELATIVE_PATH prefix_from_pc "/p/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/p")
string(REGEX REPLACE "/$" "" prefix_from_pc "${prefix_from_pc}")
configure_file(cmake/weft.pc.in weft.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/weft.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
include(CMakePackageConfigHelpers)
configure_package_config_file(cmake/weft-config.cmake.in weft-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/weft PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(weft-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/weft-config.cmake ${CMAKE_BINARY_DIR}/weft-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/weft)

file(GLOB man_pages CONFIGURE_DEPENDS man/*.1)
install(FILES ${man_pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES completion/weft.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME weft)
install(FILES completion/_weft DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES LICENSE NOTICE README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
