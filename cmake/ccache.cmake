# A second build of the same source is a look-up where ccache is installed, in whatever folder it
# is: paths below the source folder are compared relative to it, and debug information names the
# folder that was compiled first. What the caller chose (-DCMAKE_CXX_COMPILER_LAUNCHER=..., or the
# environment variable of that name) is left alone.
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  foreach(language C CXX)
    if(NOT DEFINED CMAKE_${language}_COMPILER_LAUNCHER)
      set(CMAKE_${language}_COMPILER_LAUNCHER
          ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
          CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
          ${CCACHE_PROGRAM})
    endif()
  endforeach()
endif()
