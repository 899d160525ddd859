# The peer and the probe of scripts/bench-latency.
add_executable(dafs_passthrough passthrough.cc)
target_link_libraries(dafs_passthrough PRIVATE dafs_flags PkgConfig::FUSE3)
add_executable(dafs_latency_probe passthrough_probe.cc)
target_link_libraries(dafs_latency_probe PRIVATE dafs_flags)
