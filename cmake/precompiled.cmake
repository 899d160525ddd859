# Precompiled headers: a file of this project takes longer to read the headers of the standard library, Abseil and
# GoogleTest than to compile its own lines. A file still includes what it uses: the step tidy of scripts/check.sh and
# the preset release compile without them.
option(DAFS_PRECOMPILED_HEADERS "Precompile the headers of libraries" OFF)
if(NOT DAFS_PRECOMPILED_HEADERS)
  return()
endif()

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC takes precompiled code for the project's own, and gives its false alarms about the standard library there. The
  # preset release has these warnings.
  target_compile_options(dafs_flags INTERFACE -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread)
endif()

set(library_headers
  <algorithm> <array> <atomic> <cerrno> <chrono> <coroutine> <cstddef> <cstdint> <cstdlib> <cstring> <deque>
  <functional> <map> <memory> <optional> <set> <span> <string> <string_view> <thread> <utility> <variant> <vector>
  <absl/base/thread_annotations.h> <absl/container/flat_hash_map.h> <absl/container/flat_hash_set.h>
  <absl/container/inlined_vector.h> <absl/functional/any_invocable.h> <absl/functional/function_ref.h>
  <absl/status/status.h> <absl/status/statusor.h> <absl/strings/str_cat.h> <absl/strings/str_format.h>
  <absl/strings/str_join.h> <absl/strings/str_split.h> <absl/synchronization/mutex.h> <absl/time/clock.h>
  <absl/time/time.h>)

# precompile(NAME HEADERS...): a library without code whose only use is its precompiled headers.
function(precompile name)
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${name}.cc CONTENT "")
  add_library(${name} OBJECT ${CMAKE_CURRENT_BINARY_DIR}/${name}.cc)
  target_link_libraries(${name} PRIVATE dafs_flags ${ARGN})
endfunction()

precompile(dafs_precompiled absl::flat_hash_map absl::inlined_vector absl::statusor absl::synchronization)
target_precompile_headers(dafs_precompiled PRIVATE ${library_headers})
if(DAFS_BUILD_TESTS)
  precompile(dafs_precompiled_tests absl::flat_hash_map absl::inlined_vector absl::statusor absl::synchronization
    GTest::gmock)
  target_precompile_headers(dafs_precompiled_tests PRIVATE ${library_headers} <fstream> <filesystem>
    <gmock/gmock.h> <gtest/gtest.h>)
endif()

# A compiler refuses precompiled headers that were made for another code model or other sanitizers, so targets with
# -fPIC or -fsanitize of their own read the headers themselves.
function(use_precompiled_headers directory)
  get_property(targets DIRECTORY ${directory} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    get_target_property(pic ${target} POSITION_INDEPENDENT_CODE)
    get_target_property(options ${target} COMPILE_OPTIONS)
    if(type MATCHES "STATIC_LIBRARY|EXECUTABLE" AND NOT pic AND NOT options MATCHES "-fsanitize")
      get_target_property(libraries ${target} LINK_LIBRARIES)
      if(libraries MATCHES "GTest::gmock")
        target_precompile_headers(${target} REUSE_FROM dafs_precompiled_tests)
      else()
        target_precompile_headers(${target} REUSE_FROM dafs_precompiled)
      endif()
    endif()
  endforeach()
  get_property(folders DIRECTORY ${directory} PROPERTY SUBDIRECTORIES)
  foreach(folder IN LISTS folders)
    use_precompiled_headers(${folder})
  endforeach()
endfunction()
use_precompiled_headers(${PROJECT_SOURCE_DIR})
