# The pass-through file system, the one without a store, and the probes of scripts/bench.
find_package(ZLIB)
add_executable(dafs_passthrough passthrough.cc round_trip.cc)
target_link_libraries(dafs_passthrough PRIVATE dafs_flags PkgConfig::FUSE3)
add_executable(dafs_null_fuse null_fuse.cc)
target_link_libraries(dafs_null_fuse PRIVATE dafs_flags dafs_fuse PkgConfig::FUSE3)
add_executable(dafs_bench_probe bench_probe.cc posix_calls.cc)
target_link_libraries(dafs_bench_probe PRIVATE dafs_flags)
pkg_check_modules(LIBNFS IMPORTED_TARGET libnfs<6)  # libnfs 6 changed the arguments of some calls
if(LIBNFS_FOUND)
  add_executable(dafs_libnfs_probe bench_probe.cc libnfs_calls.cc)
  target_link_libraries(dafs_libnfs_probe PRIVATE dafs_flags PkgConfig::LIBNFS)
endif()

# The paper's experiments, one program for each implementation of block_io.h.
function(dafs_paper_programs way)
  add_executable(dafs_paper_${way} bench_paper.cc ${way}_blocks.cc)
  target_link_libraries(dafs_paper_${way} PRIVATE dafs_flags ${ARGN})
  # libnfs 4 cannot send NFSv4 writes of such blocks ("Failed to encode COMPOUND4args").
  if(ZLIB_FOUND AND NOT way STREQUAL "libnfs")
    add_executable(dafs_gzip_${way} bench_gzip.cc ${way}_blocks.cc)
    target_link_libraries(dafs_gzip_${way} PRIVATE dafs_flags ${ARGN} ZLIB::ZLIB Threads::Threads)
  endif()
endfunction()
dafs_paper_programs(posix)
dafs_paper_programs(dafs dafs_client dafs_dat dafs_dat_verbs)
if(LIBNFS_FOUND)
  dafs_paper_programs(libnfs PkgConfig::LIBNFS)
endif()
