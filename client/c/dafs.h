/* dafs.h: libdafs for C. Files of a DAFS server, without a mount (docs/library.md).
 *
 * Returns. A function returns 0 or a count, or a negative errno value. dafs_error() then has the
 * reason with the names of the server, the export, the call and the file. The errno values are
 * those that a mount gives; dafs_error_status() has the code of the server. Also:
 *   -EBADF      the handle is closed, of another kind, or NULL
 *   -EPERM      the call was made by another thread than the one that opened the session
 *   -EINVAL     an argument is wrong, also an enum or a flag that this version does not know
 *   -EFAULT     a required pointer is NULL
 *   -ETIMEDOUT  dafs_options.timeout_ms has passed without an answer of the server
 *   -ENOTCONN   no connection with the server
 *   -EOWNERDEAD a lock is broken: its holder has failed
 *   -E2BIG      the program was compiled for a newer libdafs and uses an option that this one lacks
 *
 * Threads. A session belongs to the thread that opened it, with its files, groups and lists.
 * Threads with sessions of their own run in parallel. The library starts a thread for each session,
 * which renews leases, and one more for dafs_group_fd; no callback runs on them. After fork(2) only
 * the parent may use its sessions.
 *
 * Blocking. The _async and _submit calls and dafs_cancel return at once. Without dafs_group_fd,
 * nothing happens until the next call on the session: requests leave in dafs_group_poll, _wait and
 * _dispatch, and in every call that blocks. All others block for one or more round trips. A lost
 * connection or a restart of the server is not an error: calls wait, at most for
 * dafs_options.timeout_ms.
 *
 * Ownership. Strings and structures are read before a call returns, and need not live longer. The
 * memory of an asynchronous I/O belongs to the library until its completion was taken, also after
 * dafs_cancel. Strings in results live as long as stated at each function.
 *
 * Structures begin with their size, which makes them extensible: initialise them with DAFS_INIT, as
 * in `struct dafs_options options = DAFS_INIT(struct dafs_options);`. Zero is the default of every
 * field. A size that no compiler gives the structure is -EINVAL. Fields named `reserved` are
 * ignored and should be zero. Functions and structures are not removed or changed while the library
 * is libdafs.so.1.
 *
 * Paths are relative to the export: "dir/file"; "" is the export itself. Symbolic links are not
 * followed. Names are the bytes of the server. A name that is too long is -ENAMETOOLONG.
 *
 * Not checked: that memory and strings are the program's, and that they are as long as stated.
 */
#ifndef DAFS_H
#define DAFS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#define DAFS_INIT(type) \
  { sizeof(type) }
#else
#define DAFS_INIT(type) \
  { .size = sizeof(type) }
#endif

#pragma GCC visibility push(default)

/* Handles. They are not addresses: a closed one is recognised. */
typedef struct dafs_session dafs_session;
typedef struct dafs_file dafs_file;
typedef struct dafs_group dafs_group;
typedef struct dafs_list dafs_list;

/* ---- Errors ---- */

/* Why the last failed call of this thread failed; "" if none has. Valid until the next one. */
const char *dafs_error(void);
/* The server's code of that error (DAFSERR_...), or 0 if it did not come from the server. */
uint32_t dafs_error_status(void);
/* The version of the library: "0.1.0". */
const char *dafs_version(void);

/* ---- Sessions ---- */

struct dafs_options {
  size_t size;
  const char *server;      /* "host", "host:port", "[v6]:port" */
  const char *export_path; /* "/data" */
  const char *transport;   /* "tcp", "rdma", or NULL: rdma if a device has a route to the
                              server, else tcp */
  const char *client_id;   /* NULL: unique. A program that passes the same id after a restart
                              immediately breaks the PERSIST locks of its earlier run. At most
                              1024 bytes */
  const char *fence_id;    /* in fencing lists; NULL: none, and no list admits it */
  const char *tls_name;    /* not NULL: TLS, with a certificate of the server for this name */
  const char *tls_ca;      /* file of the accepted CAs; NULL: those of the system */
  const char *tls_cert;    /* the program's certificate and its key, both or neither */
  const char *tls_key;
  const uint32_t *user; /* uid, gid and `groups` further groups; NULL: those of the process */
  uint32_t groups;      /* at most 1024 */
  uint32_t timeout_ms;  /* for the server's answers; 0: no limit */
  uint32_t most_out;    /* asynchronous I/Os outstanding or not taken; 0: 256; at most 65536 */
};

/* Connects. -EACCES: the server refuses; -ENOENT: no such export. */
int dafs_session_open(const struct dafs_options *options, dafs_session **session);
/* Closes its files, groups and lists too. Outstanding I/O ends, and its completions are dropped.
 * Waits at most two seconds for the server. -EBUSY: in a callback of the session. */
int dafs_session_close(dafs_session *session);

/* ---- Files ---- */

enum {
  DAFS_WRITE = 1 << 0,     /* for reading and writing; otherwise for reading */
  DAFS_CREATE = 1 << 1,    /* with `mode`, if the file does not exist */
  DAFS_EXCLUSIVE = 1 << 2, /* with DAFS_CREATE: -EEXIST if it exists */
  DAFS_TRUNCATE = 1 << 3,
  DAFS_UNLINKED = 1 << 4, /* a new file without a name, in the directory of the path */
  /* While the file is open: */
  DAFS_DENY_READ = 1 << 5,   /* no other open for reading */
  DAFS_DENY_WRITE = 1 << 6,  /* no other open for writing */
  DAFS_DENY_DELETE = 1 << 7, /* no client removes or renames it */
  DAFS_SHARE_KEY = 1 << 8,   /* no other open with another `share_key` */
};
/* How a program will use a file. The server need not follow it. */
enum dafs_pattern { DAFS_NORMAL, DAFS_RANDOM, DAFS_SEQUENTIAL, DAFS_WILL_NEED, DAFS_DONT_NEED };

struct dafs_open_options {
  size_t size;
  uint32_t flags;
  uint32_t mode; /* 0: 0644 */
  uint64_t share_key;
  uint32_t pattern; /* enum dafs_pattern */
  uint32_t reserved;
};

/* `options` NULL: for reading. -EACCES with status DENIED or KEY_MISMATCH: it conflicts with
 * another open. */
int dafs_open(dafs_session *session, const char *path, const struct dafs_open_options *options,
              dafs_file **file);
/* Releases its locks. -EBUSY: I/O is outstanding, and the file stays open. After any other error
 * it is closed. */
int dafs_close(dafs_file *file);

/* At most DAFS_MOST_BYTES at once (-EINVAL). Reads return fewer bytes only at the end of the file.
 * A size of 0 returns 0. */
#define DAFS_MOST_BYTES ((size_t)1 << 30)
int64_t dafs_read(dafs_file *file, void *into, size_t size, uint64_t offset);
int64_t dafs_write(dafs_file *file, const void *from, size_t size, uint64_t offset);
/* All of it at the end of the file, or nothing. Returns its offset. -EFBIG: too much at once;
 * -EINVAL: no bytes. */
int64_t dafs_append(dafs_file *file, const void *from, size_t size);
int dafs_truncate(dafs_file *file, uint64_t size);
/* Makes all writes so far stable, as fsync(2). */
int dafs_commit(dafs_file *file);
/* Announces how the program will use `size` bytes from `offset` (0: to the end of the file). */
int dafs_hint(dafs_file *file, uint64_t offset, uint32_t size, enum dafs_pattern pattern);

/* ---- Names and attributes ---- */

enum { /* dafs_attributes.valid */
       DAFS_ATTR_MODE = 1 << 0,
       DAFS_ATTR_SIZE = 1 << 1,
       DAFS_ATTR_MTIME = 1 << 2,
       DAFS_ATTR_TYPE = 1 << 3, /* this and the following only as results, and to verify */
       DAFS_ATTR_LINKS = 1 << 4,
       DAFS_ATTR_FILE_ID = 1 << 5,
       DAFS_ATTR_CHANGE = 1 << 6,
};
enum dafs_type {
  DAFS_TYPE_REG = 1,
  DAFS_TYPE_DIR,
  DAFS_TYPE_BLK,
  DAFS_TYPE_CHR,
  DAFS_TYPE_LNK,
  DAFS_TYPE_SOCK,
  DAFS_TYPE_FIFO
};

struct dafs_attributes {
  size_t size;
  uint32_t valid; /* which of the following hold */
  uint32_t mode;  /* the permissions */
  uint64_t file_size;
  int64_t mtime_seconds;
  uint32_t mtime_nanoseconds;
  uint32_t type;
  uint32_t links;
  uint32_t reserved;
  uint64_t file_id;
  uint64_t change; /* differs after every change of the file */
};

/* Fill in `attributes`, whose size is set. */
int dafs_stat(dafs_session *session, const char *path, struct dafs_attributes *attributes);
int dafs_fstat(dafs_file *file, struct dafs_attributes *attributes);
/* Sets the mode, size and mtime that are valid. */
int dafs_set_attributes(dafs_session *session, const char *path,
                        const struct dafs_attributes *attributes);
/* Both return 1 if the server's attributes equal the valid ones, otherwise 0: by VERIFY or
 * NVERIFY. */
int dafs_verify(dafs_session *session, const char *path, const struct dafs_attributes *attributes);
int dafs_nverify(dafs_session *session, const char *path, const struct dafs_attributes *attributes);
int dafs_mkdir(dafs_session *session, const char *path, uint32_t mode);
/* A file or an empty directory, as remove(3). */
int dafs_remove(dafs_session *session, const char *path);
int dafs_rename(dafs_session *session, const char *from, const char *to);
int dafs_link(dafs_session *session, const char *from, const char *to);
int dafs_symlink(dafs_session *session, const char *target, const char *path);
/* Stores the target with a NUL. Returns its length; -ERANGE: `size` is too small. */
int64_t dafs_readlink(dafs_session *session, const char *path, char *into, size_t size);

/* The entries of a directory, read at once. */
int dafs_list_open(dafs_session *session, const char *path, dafs_list **list);
/* 1: *name is the next entry, with its attributes (may be NULL); valid until the next call on the
 * list. 0: there is no other. */
int dafs_list_next(dafs_list *list, const char **name, struct dafs_attributes *attributes);
int dafs_list_close(dafs_list *list);

/* ---- Locks ---- */

enum {
  DAFS_LOCK_WRITE = 1 << 0,         /* exclusive; needs an open for writing */
  DAFS_LOCK_PERSIST = 1 << 1,       /* if the client fails, the lock is broken, not released */
  DAFS_LOCK_AUTO_RECOVERY = 1 << 2, /* if the client fails, its changes are undone */
  DAFS_LOCK_REPAIR = 1 << 3,        /* takes over broken locks in the range */
};

struct dafs_range_lock {
  size_t size;
  uint32_t flags;
  int32_t wait_ms; /* 0: does not wait; -1: without limit */
  uint64_t offset;
  uint64_t length; /* 0: to the end of the file, however long it becomes */
};

/* Each open file is a lock owner of its own. -EAGAIN: another owner holds the range; -EDEADLK;
 * -EOWNERDEAD: the client that held it has failed (DAFS_LOCK_REPAIR). */
int dafs_lock(dafs_file *file, const struct dafs_range_lock *lock);
/* 1: another owner holds a conflicting lock, which is stored in *lock (flags, offset, length);
 * 0: none. -EOWNERDEAD as above. */
int dafs_lock_test(dafs_file *file, struct dafs_range_lock *lock);
int dafs_unlock(dafs_file *file, uint64_t offset, uint64_t length);
/* Undoes what was written under an auto-recovery lock of the range, which stays held. */
int dafs_abort(dafs_file *file, const struct dafs_range_lock *lock);

/* ---- Fencing ---- */

enum dafs_fence_object { DAFS_FENCE_FILE = 1, DAFS_FENCE_FILESYSTEM };
enum dafs_fence_access { DAFS_FENCE_ALLOW = 1, DAFS_FENCE_DENY };
enum dafs_fence_update { DAFS_FENCE_OVERWRITE = 1, DAFS_FENCE_APPEND, DAFS_FENCE_REMOVE };

/* The fence ids that may access `path`, for dafs_list_next; none: every client may. */
int dafs_fence_get(dafs_session *session, const char *path, dafs_list **list);
/* Changes the list. With DAFS_FENCE_DENY it returns after every access that the denied clients had
 * begun. The session itself needs an id that the list admits. -EINVAL also: the list would become
 * empty. */
int dafs_fence_set(dafs_session *session, const char *path, enum dafs_fence_object object,
                   enum dafs_fence_access access, enum dafs_fence_update update,
                   const char *const *ids, size_t count);

/* ---- Asynchronous I/O ---- */

/* The access of the server to registered memory: for reads, for writes, or for both. */
enum dafs_access { DAFS_FOR_READS = 1, DAFS_FOR_WRITES, DAFS_FOR_BOTH };
/* Registers memory, so that the server transfers to and from it by RDMA. It stays mapped until
 * dafs_deregister or the end of the session. */
int dafs_register(dafs_session *session, void *memory, size_t size, enum dafs_access access,
                  uint32_t *handle);
/* -EBUSY: an I/O uses it. */
int dafs_deregister(dafs_session *session, uint32_t handle);

struct dafs_segment {
  void *data;
  uint32_t size;
  uint32_t handle; /* of dafs_register; 0: not registered, and copied by the library */
};
struct dafs_range {
  uint64_t offset;
  uint32_t size;
  uint32_t reserved;
};
enum dafs_stability { DAFS_UNSTABLE, DAFS_DATA_SYNC, DAFS_FILE_SYNC };

/* How an I/O ended. */
struct dafs_completion {
  uint64_t id;
  uint64_t cookie;
  int64_t count;       /* bytes from the start of the lists; or a negative errno value */
  uint64_t moved;      /* bytes from the start, also after an error */
  const char *message; /* why it failed; valid until the next call on the group. NULL: it has not */
  uint32_t status;     /* the server's code of the error */
  uint32_t eof;        /* reads: 1 at the end of the file */
  uint32_t stability;  /* writes: enum dafs_stability */
  uint32_t reserved;
};

/* A group collects the completions of the I/Os that were issued for it. */
int dafs_group_open(dafs_session *session, dafs_group **group);
/* Drops completions that were not taken. -EBUSY: I/O is outstanding, or in a callback of it. */
int dafs_group_close(dafs_group *group);

/* Reads the ranges of the file into the segments, or writes. Both lists have 1 to 64 members and
 * the same total. `id` may be NULL. -EAGAIN: dafs_options.most_out is reached; take completions. */
int dafs_read_async(dafs_file *file, dafs_group *group, const struct dafs_segment *segments,
                    size_t segment_count, const struct dafs_range *ranges, size_t range_count,
                    uint64_t cookie, uint64_t *id);
int dafs_write_async(dafs_file *file, dafs_group *group, const struct dafs_segment *segments,
                     size_t segment_count, const struct dafs_range *ranges, size_t range_count,
                     enum dafs_stability stability, uint64_t cookie, uint64_t *id);

/* One of many I/Os in one request, which the server may serve after others. Registered memory. */
struct dafs_batch_io {
  dafs_file *file;
  const struct dafs_segment *segments;
  size_t segment_count;
  const struct dafs_range *ranges;
  size_t range_count;
  uint64_t cookie;
  uint64_t id; /* a result */
  uint32_t write;
  uint32_t reserved;
};
/* 1 to 4096 I/Os, each with lists of 1 to 256 members. `window_us`: how long the server may take,
 * at most 71 minutes; 0: no window. */
int dafs_batch_submit(dafs_group *group, struct dafs_batch_io *ios, size_t count,
                      uint64_t window_us);
/* Ends the time window of an I/O of a batch. -ESRCH: it has ended. */
int dafs_expedite(dafs_session *session, uint64_t id);
/* Requests the end of an I/O, which then completes with -ECANCELED unless all of it was executed.
 * -ESRCH: its completion was taken. */
int dafs_cancel(dafs_session *session, uint64_t id);

/* Take up to `most` completions, at least 1; return how many. _poll returns at once; _wait waits
 * for the first, at most for `timeout_ms` (-1: without limit) or until no I/O of the group is
 * outstanding. */
int64_t dafs_group_poll(dafs_group *group, struct dafs_completion *into, size_t most);
int64_t dafs_group_wait(dafs_group *group, struct dafs_completion *into, size_t most,
                        int timeout_ms);
/* As _wait, but calls `callback` for each completion, on this thread and outside of any lock. The
 * callback may call every function; taking completions of the same group, closing it or closing the
 * session fails with -EDEADLK or -EBUSY. Returns the number of calls. */
typedef void dafs_callback(const struct dafs_completion *completion, void *argument);
int64_t dafs_group_dispatch(dafs_group *group, dafs_callback *callback, void *argument,
                            int timeout_ms);
/* An eventfd that is readable while completions of the group can be taken, for poll(2), epoll and
 * event loops. It belongs to the group, and the program only waits for it. From the first call on,
 * a thread of the library sends and receives for the session between calls; each call then costs
 * some microseconds more. */
int dafs_group_fd(dafs_group *group);
/* I/Os that are outstanding, or that have ended and were not taken. */
int64_t dafs_group_pending(dafs_group *group);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
