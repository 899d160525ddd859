# Tests of the local store; included by CMakeLists.txt beside this file.
foreach(name
    attributes
    data
    export
    handle
    identity
    mounts
    namespace
    open
    readdir)
  dafs_test(store_${name}_test SOURCES store_${name}_test.cc LIBS dafs_store)
endforeach()
