# ccache where it is installed; -DCMAKE_CXX_COMPILER_LAUNCHER= builds without it.
find_program(DAFS_CCACHE ccache)
if(DAFS_CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${DAFS_CCACHE})
endif()

# Warnings are errors with both compilers. Clang also checks the lock annotations.
option(DAFS_WERROR "Warnings are errors" ON)
add_library(dafs_flags INTERFACE)
target_compile_options(dafs_flags INTERFACE -Wall -Wextra -Wconversion)
if(DAFS_WERROR)
  target_compile_options(dafs_flags INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  target_compile_options(dafs_flags INTERFACE -Wthread-safety)
elseif(CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # False alarms about std::string assignment at -O2 and above (GCC bug 105651, fixed in 13).
  target_compile_options(dafs_flags INTERFACE -Wno-restrict)
else()
  # GCC reports variables of a coroutine's frame as uninitialised after a StatusOr that was checked.
  target_compile_options(dafs_flags INTERFACE -Wno-maybe-uninitialized)
endif()
target_include_directories(dafs_flags INTERFACE ${PROJECT_SOURCE_DIR})
# 64-bit file offsets on every architecture.
target_compile_definitions(dafs_flags INTERFACE _FILE_OFFSET_BITS=64 _GNU_SOURCE)

if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC takes files that are compiled together for headers, whose types should have linkage.
  target_compile_options(dafs_flags INTERFACE -Wno-subobject-linkage)
endif()

if(DAFS_SANITIZE)
  add_compile_options(-fsanitize=${DAFS_SANITIZE} -fno-omit-frame-pointer -g)
  add_link_options(-fsanitize=${DAFS_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang" AND DAFS_SANITIZE MATCHES "undefined")
    # Clang 14 cannot combine its prologue data with split coroutines ("Cannot represent a
    # difference across sections").
    add_compile_options(-fno-sanitize=function)
  endif()
endif()
