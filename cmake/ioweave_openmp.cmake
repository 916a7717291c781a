# Programs with OpenMP tasks. The compiler decides on the run-time library (GCC: libgomp, Clang:
# libomp) and both must be tried whatever builds the rest, so these are not ordinary targets but
# commands.
include(CheckLanguage)
check_language(Fortran) # finds it, and leaves it at that

find_program(IOWEAVE_OPENMP_GCC NAMES gcc-12 gcc DOC "GCC, for programs with OpenMP tasks on libgomp")
find_program(IOWEAVE_OPENMP_CLANG NAMES clang-16 clang DOC "Clang, for OpenMP tasks on libomp")

# ioweave_openmp_works(compiler suffix variable): whether it compiles and links an OpenMP program.
function(ioweave_openmp_works compiler suffix variable)
  if(compiler MATCHES "NOTFOUND$|^$")
    set(${variable} FALSE PARENT_SCOPE)
    return()
  endif()
  set(probe ${CMAKE_BINARY_DIR}/openmp_probe)
  file(WRITE ${probe}.f90 "use omp_lib\ninteger(omp_event_handle_kind) :: event\nevent = 0\nend\n")
  file(WRITE ${probe}.c "#include <omp.h>\nint main(void) { return omp_get_max_threads() < 1; }\n")
  execute_process(COMMAND ${compiler} -fopenmp ${probe}.${suffix} -o ${probe}
    RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET WORKING_DIRECTORY ${CMAKE_BINARY_DIR})
  if(status EQUAL 0)
    set(${variable} TRUE PARENT_SCOPE)
  else()
    message(STATUS "${compiler} cannot build OpenMP programs (for Clang: libomp-16-dev)")
    set(${variable} FALSE PARENT_SCOPE)
  endif()
endfunction()

ioweave_openmp_works("${IOWEAVE_OPENMP_GCC}" c IOWEAVE_HAS_OPENMP_GCC)
ioweave_openmp_works("${IOWEAVE_OPENMP_CLANG}" c IOWEAVE_HAS_OPENMP_CLANG)
ioweave_openmp_works("${CMAKE_Fortran_COMPILER}" f90 IOWEAVE_HAS_OPENMP_FORTRAN)

# ioweave_openmp_program(NAME target COMPILER compiler SOURCES a.c ... [FLAGS flag ...] [LIBS -la ...])
# Links libioweave, the way a user would: by its name, with what is installed of the headers.
function(ioweave_openmp_program)
  cmake_parse_arguments(ARG "" "NAME;COMPILER" "SOURCES;FLAGS;LIBS" ${ARGN})
  set(program ${CMAKE_CURRENT_BINARY_DIR}/${ARG_NAME})
  set(modules ${CMAKE_CURRENT_BINARY_DIR}/${ARG_NAME}.mod) # for Fortran: a folder for each program
  set(flags -O2 -g -fopenmp -Wall -Wextra ${ARG_FLAGS})
  if(IOWEAVE_WERROR)
    list(APPEND flags -Werror)
  endif()
  if("${ARG_SOURCES}" MATCHES "\\.f90")
    file(MAKE_DIRECTORY ${modules})
    list(APPEND flags -J ${modules})
  else()
    list(APPEND flags -Wshadow -Wconversion)
  endif()
  file(GLOB headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/ioweave/*.h
    ${PROJECT_SOURCE_DIR}/include/ioweave/openmp/*.h
    ${CMAKE_CURRENT_SOURCE_DIR}/*.h)
  set(sources ${ARG_SOURCES})
  list(TRANSFORM sources PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ REGEX "^[^/]")
  add_custom_command(OUTPUT ${program}
    COMMAND ${ARG_COMPILER} ${flags} -I ${PROJECT_SOURCE_DIR}/include ${sources} -o ${program}
      -L $<TARGET_FILE_DIR:ioweave_shared> -lioweave
      -Wl,-rpath,$<TARGET_FILE_DIR:ioweave_shared> ${ARG_LIBS} -pthread
    DEPENDS ${sources} ${headers} ioweave_shared
    WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}
    COMMENT "Building ${ARG_NAME} by ${ARG_COMPILER}" VERBATIM COMMAND_EXPAND_LISTS)
  add_custom_target(${ARG_NAME}_program ALL DEPENDS ${program})
endfunction()
