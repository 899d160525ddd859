# The peer and the probes of scripts/bench.
add_executable(dafs_passthrough passthrough.cc)
target_link_libraries(dafs_passthrough PRIVATE dafs_flags PkgConfig::FUSE3)
add_executable(dafs_bench_probe bench_probe.cc posix_calls.cc)
target_link_libraries(dafs_bench_probe PRIVATE dafs_flags)
pkg_check_modules(LIBNFS IMPORTED_TARGET libnfs<6)  # which gave some of its calls other arguments
if(LIBNFS_FOUND)
  add_executable(dafs_libnfs_probe bench_probe.cc libnfs_calls.cc)
  target_link_libraries(dafs_libnfs_probe PRIVATE dafs_flags PkgConfig::LIBNFS)
endif()
