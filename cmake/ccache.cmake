# A second build of the same source is a look-up where ccache is installed. What the caller chose
# (-DCMAKE_CXX_COMPILER_LAUNCHER=..., or the environment variable of that name) is left alone.
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  foreach(language C CXX)
    if(NOT DEFINED CMAKE_${language}_COMPILER_LAUNCHER)
      set(CMAKE_${language}_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
    endif()
  endforeach()
endif()
