# The peer and the probe of scripts/bench.
add_executable(dafs_passthrough passthrough.cc)
target_link_libraries(dafs_passthrough PRIVATE dafs_flags PkgConfig::FUSE3)
add_executable(dafs_bench_probe bench_probe.cc)
target_link_libraries(dafs_bench_probe PRIVATE dafs_flags)
