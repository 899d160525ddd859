# Warnings are errors with both compilers; clang checks the lock annotations besides.
add_library(dafs_flags INTERFACE)
target_compile_options(dafs_flags INTERFACE -Wall -Wextra -Wconversion -Werror)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  target_compile_options(dafs_flags INTERFACE -Wthread-safety)
elseif(CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
  # It takes what lies in a coroutine's frame for uninitialised behind a StatusOr that was checked.
  target_compile_options(dafs_flags INTERFACE -Wno-maybe-uninitialized)
endif()
target_include_directories(dafs_flags INTERFACE ${PROJECT_SOURCE_DIR})
# Files of any size, on every architecture.
target_compile_definitions(dafs_flags INTERFACE _FILE_OFFSET_BITS=64 _GNU_SOURCE)

if(DAFS_SANITIZE)
  add_compile_options(-fsanitize=${DAFS_SANITIZE} -fno-omit-frame-pointer -g)
  add_link_options(-fsanitize=${DAFS_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang" AND DAFS_SANITIZE MATCHES "undefined")
    # Its prologue data and clang 14's split coroutines do not go together ("Cannot represent a
    # difference across sections").
    add_compile_options(-fno-sanitize=function)
  endif()
endif()
