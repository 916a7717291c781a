# What `cmake --install` puts where. Included last by the root, when every target is known:
#
#   include/ioweave/            the public headers
#   include/ioweave/fortran/    the Fortran modules as sources: a compiled one fits one compiler only
#   lib/libioweave.so.0         the library; its only symbols are iow_*
#   lib/ioweave/                the interposer, and one for each MPI's files, out of the linker's
#                               sight: `ioweave run` loads them
#   lib/libioweave_tasks.so     linked or preloaded: an unchanged task program's I/O pauses its tasks
#   lib/cmake/ioweave/          find_package(ioweave) and the target ioweave::ioweave
#   lib/pkgconfig/ioweave.pc    pkg-config ioweave
#   bin/ioweave                 the command
#   libexec/ioweave/            what it starts: ioweave-tiom
#
# The component `runtime` is what a Python wheel takes of this.
#
# The tree may be moved as a whole after it was installed: every path in it is relative to where
# the file that names it lies. There is no static library: a program and the libraries it loads are
# to share one copy of Ioweave's state, which only a shared object gives them.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ioweave)
set(preload_dir ${CMAKE_INSTALL_LIBDIR}/ioweave)

if(TARGET ioweave_shared)
  set_target_properties(ioweave_shared PROPERTIES EXPORT_NAME ioweave)
  install(TARGETS ioweave_shared EXPORT ioweave-targets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT development)
  install(EXPORT ioweave-targets NAMESPACE ioweave:: DESTINATION ${package_dir})
endif()
if(TARGET ioweave_preload)
  install(TARGETS ioweave_preload ioweave_preload_behind LIBRARY DESTINATION ${preload_dir} COMPONENT runtime)
endif()
foreach(mpi openmpi mpich)
  if(TARGET ioweave_mpiio_${mpi})
    install(TARGETS ioweave_mpiio_${mpi} LIBRARY DESTINATION ${preload_dir})
  endif()
endforeach()
if(TARGET ioweave_tasks)
  install(TARGETS ioweave_tasks LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(TARGET ioweave_cli)
  install(TARGETS ioweave_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
endif()

if(TARGET ioweave_tiom)
  file(RELATIVE_PATH libexec_to_lib
    ${CMAKE_INSTALL_FULL_LIBEXECDIR}/ioweave ${CMAKE_INSTALL_FULL_LIBDIR})
  set_target_properties(ioweave_tiom PROPERTIES INSTALL_RPATH "$ORIGIN/${libexec_to_lib}")
  install(TARGETS ioweave_tiom RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/ioweave)
endif()

install(DIRECTORY include/ioweave DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp" PATTERN "*.f90" PATTERN "ioweave_openmp.c")
install(FILES LICENSE README.md CHANGELOG.md CITATION.cff
  DESTINATION ${CMAKE_INSTALL_DOCDIR} OPTIONAL)

configure_package_config_file(cmake/ioweave-config.cmake.in ${PROJECT_BINARY_DIR}/ioweave-config.cmake
  INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO)
# Before 1.0 a minor version may break the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/ioweave-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/ioweave-config.cmake
  ${PROJECT_BINARY_DIR}/ioweave-config-version.cmake DESTINATION ${package_dir})

# ioweave.pc names its folders from the prefix on; a packager may have made them absolute.
file(RELATIVE_PATH pc_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" pc_prefix ${pc_prefix})
set(pc_includedir "\${prefix}")
set(pc_libdir "\${prefix}")
cmake_path(APPEND pc_includedir ${CMAKE_INSTALL_INCLUDEDIR})
cmake_path(APPEND pc_libdir ${CMAKE_INSTALL_LIBDIR})
configure_file(cmake/ioweave.pc.in ${PROJECT_BINARY_DIR}/ioweave.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/ioweave.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
