# Installs to the directories of a distribution. mount(8) looks for its helpers in /sbin only. With the
# prefix /usr/local, links are therefore made there. With /usr, /sbin is the same directory or a link to
# it. The kernel shows the type fuse.dafs, so `mount -o remount DIR` looks for mount.fuse.dafs.
foreach(program mount.dafs dafsd)
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_SBINDIR})
  endif()
endforeach()
if(TARGET dafsctl)
  install(TARGETS dafsctl dafs-lock RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(TARGETS dafs-gss-user dafs-idmap dafs-names RUNTIME DESTINATION ${CMAKE_INSTALL_LIBDIR}/dafs)
install(TARGETS dafs_gss_module dafs_tls_module dafs_preload dafs_direct_module
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/dafs)
install(CODE "set(dafs_sbin \"${CMAKE_INSTALL_SBINDIR}\")")
install(CODE [[
  set(dafs_program "${CMAKE_INSTALL_PREFIX}/${dafs_sbin}/mount.dafs")
  if(CMAKE_INSTALL_PREFIX STREQUAL "/usr/local")
    file(MAKE_DIRECTORY "$ENV{DESTDIR}/sbin")
    foreach(name mount.dafs mount.fuse.dafs)
      message(STATUS "Linking: $ENV{DESTDIR}/sbin/${name} -> ${dafs_program}")
      file(CREATE_LINK "${dafs_program}" "$ENV{DESTDIR}/sbin/${name}" SYMBOLIC)
    endforeach()
  elseif(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
    message(STATUS "Linking: $ENV{DESTDIR}/usr/${dafs_sbin}/mount.fuse.dafs -> mount.dafs")
    file(CREATE_LINK mount.dafs "$ENV{DESTDIR}/usr/${dafs_sbin}/mount.fuse.dafs" SYMBOLIC)
  else()
    message(STATUS "mount -t dafs needs links: /sbin/mount.dafs, /sbin/mount.fuse.dafs -> ${dafs_program}")
  endif()
]])

# Wireshark reads dissectors from its own directory only: with the prefix /usr/local, a link is made there.
if(CMAKE_LIBRARY_ARCHITECTURE)
  set(dafs_wireshark lib/${CMAKE_LIBRARY_ARCHITECTURE}/wireshark/plugins)
else()
  set(dafs_wireshark ${CMAKE_INSTALL_LIBDIR}/wireshark/plugins)
endif()
install(FILES ${CMAKE_BINARY_DIR}/wireshark/dafs.lua DESTINATION ${dafs_wireshark})
install(CODE "set(dafs_wireshark \"${dafs_wireshark}\")")
install(CODE [[
  if(CMAKE_INSTALL_PREFIX STREQUAL "/usr/local" AND IS_DIRECTORY "/usr/${dafs_wireshark}")
    message(STATUS "Linking: $ENV{DESTDIR}/usr/${dafs_wireshark}/dafs.lua -> /usr/local/${dafs_wireshark}/dafs.lua")
    file(MAKE_DIRECTORY "$ENV{DESTDIR}/usr/${dafs_wireshark}")
    file(CREATE_LINK "/usr/local/${dafs_wireshark}/dafs.lua" "$ENV{DESTDIR}/usr/${dafs_wireshark}/dafs.lua" SYMBOLIC)
  endif()
]])

# libdafs for other programs: cmake --install build --component library. The C interface (client/c/dafs.h) is the shared
# library; C++ programs (client/library/library.h) link the static ones.
install(TARGETS dafs_c LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library EXCLUDE_FROM_ALL
  NAMELINK_COMPONENT library)
install(FILES ${PROJECT_SOURCE_DIR}/client/c/dafs.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  COMPONENT library EXCLUDE_FROM_ALL)
foreach(folder client wire runtime)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${folder} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/dafs
    COMPONENT library EXCLUDE_FROM_ALL FILES_MATCHING PATTERN "*.h" PATTERN "client/c" EXCLUDE)
endforeach()
install(TARGETS dafs_client dafs_wire dafs_runtime dafs_dat dafs_dat_verbs dafs_gss dafs_tls
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library EXCLUDE_FROM_ALL)
# The Python package has no compiled part. It reads dafs.h.
set(DAFS_PYTHON_DIR lib/python3/dist-packages CACHE STRING "Where the Python package is installed")
install(FILES ${PROJECT_SOURCE_DIR}/share/python/dafs/__init__.py ${PROJECT_SOURCE_DIR}/share/python/dafs/_group.py
  ${PROJECT_SOURCE_DIR}/share/python/dafs/_library.py ${PROJECT_SOURCE_DIR}/client/c/dafs.h
  DESTINATION ${DAFS_PYTHON_DIR}/dafs COMPONENT library EXCLUDE_FROM_ALL)
# The paths are relative to the .pc file, so that the installed tree can be moved, or installed with another --prefix.
file(RELATIVE_PATH DAFS_PC_UP /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
foreach(name libdafs libdafs-cpp)
  configure_file(cmake/${name}.pc.in ${name}.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
    COMPONENT library EXCLUDE_FROM_ALL)
endforeach()
