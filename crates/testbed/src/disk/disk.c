/* Injects disk faults and journals all changes; preloaded into a program with a SQLite database. Affects only the
 * database, its -wal, its -journal and their folder.
 *
 * GOLDSEAM_DISK_FILE     path of the database
 * GOLDSEAM_DISK_FAULT    CALL FIRST ERRNO MANNER: the FIRST call of its kind (read, write, sync, truncate, open)
 *                        fails; MANNER is `once`, `on` (and all later ones), or `short` (a write writes half of
 *                        its bytes, and the next one fails)
 * GOLDSEAM_DISK_HEALED   path; once this file exists, no call fails
 * GOLDSEAM_DISK_JOURNAL  path; every change is appended to it, in order
 *
 * A record of the journal: kind (1 byte), file (1), offset (8), length (4), bytes; little-endian, packed. It is
 * written after the call under the same lock, so records are in the order of calls, also across processes. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { DATABASE, WAL, ROLLBACK, FOLDER, FILES, OTHER = -1 };
enum { READ, WRITE, SYNC, TRUNCATE, OPEN, CALLS };
enum { ONCE, ON, SHORT };

static const char *const SUFFIX[] = {"", "-wal", "-journal"};
static const char *const CALL[] = {"read", "write", "sync", "truncate", "open"};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static const char *database, *healed;
static char folder[4096];
static int journal = -1;
static int fault_call = -1, fault_errno, fault_manner;
static long fault_first, calls[CALLS];
/* The file of a descriptor, plus one; 0 for any other file. */
static signed char known[65536];

#define REAL(name, type) ((type)real(#name))
typedef int (*open_fn)(const char *, int, ...);
typedef ssize_t (*pread_fn)(int, void *, size_t, off_t);
typedef ssize_t (*pwrite_fn)(int, const void *, size_t, off_t);
typedef int (*sync_fn)(int);
typedef int (*truncate_fn)(int, off_t);
typedef int (*unlink_fn)(const char *);

static void *real(const char *name) { return dlsym(RTLD_NEXT, name); }

static int errno_of(const char *name) {
    if (!strcmp(name, "ENOSPC")) return ENOSPC;
    if (!strcmp(name, "EROFS")) return EROFS;
    if (!strcmp(name, "EDQUOT")) return EDQUOT;
    return EIO;
}

static void read_fault(const char *text) {
    char call[16], error[16], manner[16];
    if (sscanf(text, "%15s %ld %15s %15s", call, &fault_first, error, manner) != 4) abort();
    for (int i = 0; i < CALLS; i++)
        if (!strcmp(call, CALL[i])) fault_call = i;
    fault_errno = errno_of(error);
    fault_manner = !strcmp(manner, "on") ? ON : !strcmp(manner, "short") ? SHORT : ONCE;
}

static void begin(void) {
    database = getenv("GOLDSEAM_DISK_FILE");
    healed = getenv("GOLDSEAM_DISK_HEALED");
    if (!database) return;
    snprintf(folder, sizeof folder, "%s", database);
    char *slash = strrchr(folder, '/');
    if (slash) *slash = 0;
    const char *fault = getenv("GOLDSEAM_DISK_FAULT"), *path = getenv("GOLDSEAM_DISK_JOURNAL");
    if (fault) read_fault(fault);
    if (path) journal = REAL(open, open_fn)(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
}

static int which_path(const char *path) {
    pthread_once(&once, begin);
    if (!database || !path) return OTHER;
    if (!strcmp(path, folder)) return FOLDER;
    size_t length = strlen(database);
    if (strncmp(path, database, length)) return OTHER;
    for (int i = 0; i < FOLDER; i++)
        if (!strcmp(path + length, SUFFIX[i])) return i;
    return OTHER;
}

static int which(int fd) {
    return fd >= 0 && fd < (int)sizeof known ? known[fd] - 1 : OTHER;
}

static void enter(void) {
    pthread_mutex_lock(&lock);
    if (journal >= 0) flock(journal, LOCK_EX);
}

static void leave(void) {
    int kept = errno;
    if (journal >= 0) flock(journal, LOCK_UN);
    pthread_mutex_unlock(&lock);
    errno = kept;
}

static void note(char kind, int file, uint64_t offset, const void *bytes, uint32_t length) {
    if (journal < 0) return;
    int kept = errno;
    unsigned char head[14] = {(unsigned char)kind, (unsigned char)file};
    uint32_t carried = kind == 'W' ? length : 0;
    memcpy(head + 2, &offset, 8);
    memcpy(head + 10, &carried, 4);
    struct iovec parts[] = {{head, sizeof head}, {(void *)bytes, carried}};
    if (writev(journal, parts, 2) != (ssize_t)(sizeof head + carried)) abort();
    errno = kept;
}

/* Whether this call fails. The caller holds the lock. */
static int fails(int call, int file) {
    long number = ++calls[call];
    if (call != fault_call || number < fault_first) return 0;
    if (fault_manner == ONCE && number > fault_first) return 0;
    if (fault_manner == SHORT && number != fault_first + 1) return 0;
    if (healed && !access(healed, F_OK)) return 0;
    note('F', file, 0, NULL, 0);
    errno = fault_errno;
    return 1;
}

static int open_as(const char *path, int flags, mode_t mode) {
    int file = which_path(path);
    if (file == OTHER) return REAL(open, open_fn)(path, flags, mode);
    enter();
    int is_new = (flags & O_CREAT) && access(path, F_OK);
    int fd = file != FOLDER && fails(OPEN, file) ? -1 : REAL(open, open_fn)(path, flags, mode);
    if (fd >= 0 && fd < (int)sizeof known) known[fd] = (signed char)(file + 1);
    if (fd >= 0 && is_new) note('C', file, 0, NULL, 0);
    leave();
    return fd;
}

static int sync_as(int fd, const char *name) {
    int file = which(fd);
    if (file == OTHER) return REAL(fsync, sync_fn)(fd);
    enter();
    int done = fails(SYNC, file) ? -1 : ((sync_fn)real(name))(fd);
    if (!done) note('S', file, 0, NULL, 0);
    leave();
    return done;
}

static ssize_t write_as(int fd, const void *bytes, size_t length, off_t offset) {
    enter();
    if (fails(WRITE, which(fd))) {
        leave();
        return -1;
    }
    if (fault_call == WRITE && fault_manner == SHORT && calls[WRITE] == fault_first) length = (length + 1) / 2;
    ssize_t done = REAL(pwrite, pwrite_fn)(fd, bytes, length, offset);
    if (done > 0) note('W', which(fd), (uint64_t)offset, bytes, (uint32_t)done);
    leave();
    return done;
}

static ssize_t read_as(int fd, void *bytes, size_t length, off_t offset) {
    enter();
    int failed = fails(READ, which(fd));
    leave();
    return failed ? -1 : REAL(pread, pread_fn)(fd, bytes, length, offset);
}

static int truncate_as(int fd, off_t length) {
    int file = which(fd);
    if (file == OTHER) return REAL(ftruncate, truncate_fn)(fd, length);
    enter();
    int done = fails(TRUNCATE, file) ? -1 : REAL(ftruncate, truncate_fn)(fd, length);
    if (!done) note('T', file, (uint64_t)length, NULL, 0);
    leave();
    return done;
}

static mode_t mode_of(int flags, va_list rest) { return flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; }

#define OPENS(name)                                    \
    int name(const char *path, int flags, ...) {       \
        va_list rest;                                  \
        va_start(rest, flags);                         \
        mode_t mode = mode_of(flags, rest);            \
        va_end(rest);                                  \
        return open_as(path, flags, mode);             \
    }
OPENS(open)
OPENS(open64)

int close(int fd) {
    if (fd >= 0 && fd < (int)sizeof known) known[fd] = 0;
    return REAL(close, sync_fn)(fd);
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset) {
    return which(fd) == OTHER ? REAL(pwrite, pwrite_fn)(fd, bytes, length, offset)
                              : write_as(fd, bytes, length, offset);
}
ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t offset) { return pwrite(fd, bytes, length, offset); }

ssize_t pread(int fd, void *bytes, size_t length, off_t offset) {
    return which(fd) == OTHER ? REAL(pread, pread_fn)(fd, bytes, length, offset) : read_as(fd, bytes, length, offset);
}
ssize_t pread64(int fd, void *bytes, size_t length, off64_t offset) { return pread(fd, bytes, length, offset); }

int fsync(int fd) { return sync_as(fd, "fsync"); }
int fdatasync(int fd) { return sync_as(fd, "fdatasync"); }
int ftruncate(int fd, off_t length) { return truncate_as(fd, length); }
int ftruncate64(int fd, off64_t length) { return truncate_as(fd, length); }

int unlink(const char *path) {
    int file = which_path(path);
    if (file == OTHER) return REAL(unlink, unlink_fn)(path);
    enter();
    int done = REAL(unlink, unlink_fn)(path);
    if (!done) note('U', file, 0, NULL, 0);
    leave();
    return done;
}
