# Warnings and sanitizers, the same for every target of the project.
# Include order: before any target is created.
add_compile_options(-Wall -Wextra -Wshadow
  $<$<COMPILE_LANGUAGE:CXX>:-Wconversion> $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>)
if(IOWEAVE_WERROR)
  add_compile_options(-Werror)
endif()
if(IOWEAVE_SANITIZE)
  add_compile_options(-fsanitize=${IOWEAVE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${IOWEAVE_SANITIZE})
  # What the sanitizers' makers advise; -O2 -g takes twice as long to compile.
  add_compile_options(-O1 -g1)
endif()
