# Tests of the local store; included by CMakeLists.txt beside this file.
foreach(name
    acl
    attributes
    courtesy
    data
    export
    failures
    handle
    identity
    lock_table
    locks
    mounts
    named_attributes
    namespace
    open
    ranges
    posix
    readdir
    shares
    state
    supported
    walk)
  dafs_test(store_${name}_test SOURCES store_${name}_test.cc LIBS dafs_store)
endforeach()
dafs_test(acl_mapping_test SOURCES acl_mapping_test.cc LIBS dafs_store)
dafs_test(state_dir_check_test SOURCES state_dir_check_test.cc LIBS dafs_store)
