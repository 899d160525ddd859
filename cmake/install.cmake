# Where a distribution would put things. mount(8) looks for its helpers in /sbin only, so with the
# prefix /usr/local links are made there; with /usr, /sbin is the same place (or a link to it). By the
# type that the kernel shows, fuse.dafs, mount(8) looks for mount.fuse.dafs (`mount -o remount DIR`).
foreach(program mount.dafs dafsd)
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_SBINDIR})
  endif()
endforeach()
if(TARGET dafsctl)
  install(TARGETS dafsctl RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
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

# libdafs for programs of one's own (client/library.h): cmake --install build --component library
foreach(folder client wire)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${folder} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/dafs
    COMPONENT library EXCLUDE_FROM_ALL FILES_MATCHING PATTERN "*.h")
endforeach()
install(TARGETS dafs_client dafs_wire dafs_loop dafs_dat dafs_dat_verbs
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library EXCLUDE_FROM_ALL)
# From where the file lies, so that `cmake --install --prefix` elsewhere, or moving it all, leaves it true.
file(RELATIVE_PATH DAFS_PC_UP /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/libdafs.pc.in libdafs.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/libdafs.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
  COMPONENT library EXCLUDE_FROM_ALL)
