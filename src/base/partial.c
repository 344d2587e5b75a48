/* SPDX-License-Identifier: Apache-2.0 */
#include "base/partial.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

static const char mark[] = ".weft.partial-";
enum { TRIES = 64 };

static weft_status fail_errno(weft_error *err, const char *path) {
  char why[128];
  return wf_fail(err, WEFT_IO, "choose a folder that you may write to",
                 "cannot write beside '%s': %s", path, strerror_r(errno, why, sizeof why));
}

/* "<folder of path>/.weft.partial-<16 hex digits>": short, however long the final name is. */
static char *fresh_name(const char *path) {
  uint64_t random = 0;
  wf_buf name = {0};
  size_t n = strlen(path);
  while (n > 1 && path[n - 1] == '/') n--; /* "out/" lies beside "out" */
  while (n > 0 && path[n - 1] != '/') n--;
  if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random) return NULL;
  wf_buf_add(&name, path, n);
  wf_buf_printf(&name, "%s%016llx", mark, (unsigned long long)random);
  return wf_buf_take(&name);
}

static bool is_same(int fd, const char *path) {
  struct stat a, b;
  return fstat(fd, &a) == 0 && lstat(path, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* Whoever sweeps takes the lock before he removes, so one that we hold of what is still there keeps
 * it there. False: it is his. A file system without locks is not swept either. */
static bool keep(int fd, const char *path) {
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) return errno != EWOULDBLOCK;
  return is_same(fd, path);
}

weft_status wf_partial_file(const char *path, bool is_private, char **temporary, int *fd,
                            weft_error *err) {
  *fd = -1;
  for (int i = 0; i < TRIES; i++) {
    char *name = fresh_name(path);
    if (!name) return wf_fail_memory(err, strlen(path), "a path");
    *fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, is_private ? 0600 : 0666);
    if (*fd >= 0 && keep(*fd, name)) {
      if (is_private) (void)fchmod(*fd, 0600); /* a umask may have taken from that */
      *temporary = name;
      return WEFT_OK;
    }
    const int reason = *fd >= 0 ? EEXIST : errno;
    if (*fd >= 0) close(*fd);
    *fd = -1;
    wf_free(name);
    errno = reason;
    if (reason != EEXIST) break;
  }
  return fail_errno(err, path);
}

/* ---- folders ------------------------------------------------------------------------------- */

/* The lock of what nobody writes any more; -1: somebody does, or it is gone, or there are no locks
 * here. */
static int lock_dead(const char *path) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && is_same(fd, path)) return fd;
  if (fd >= 0) close(fd);
  return -1;
}

weft_status wf_partial_folder(wf_partial *p, const char *path, bool is_private, weft_error *err) {
  char *folder = wf_path_dir(path);
  if (folder) wf_partial_sweep(folder);
  wf_free(folder);
  for (int i = 0; i < TRIES; i++) {
    char *name = fresh_name(path);
    if (!name) return wf_fail_memory(err, strlen(path), "a path");
    if (mkdir(name, is_private ? 0700 : 0777) != 0) {
      const bool is_taken = errno == EEXIST;
      wf_free(name);
      if (is_taken) continue;
      break;
    }
    if (is_private) (void)chmod(name, 0700);
    const int lock = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (lock >= 0 && keep(lock, name)) {
      *p = (wf_partial){name, lock};
      return WEFT_OK;
    }
    const int reason = lock >= 0 ? EACCES : errno;
    if (lock >= 0) close(lock);
    (void)rmdir(name);
    wf_free(name);
    errno = reason;
    if (lock < 0 && reason != ENOENT) break;
  }
  return fail_errno(err, path);
}

static void unlock(wf_partial *p) {
  if (p->lock >= 0) close(p->lock);
  wf_free(p->path);
  *p = (wf_partial){NULL, -1};
}

weft_status wf_partial_rename(wf_partial *p, const char *path, weft_error *err) {
  if (rename(p->path, path) != 0) {
    char why[128];
    return wf_fail(err, WEFT_IO, "name a folder that does not exist yet",
                   "cannot rename what is finished to '%s': %s", path,
                   strerror_r(errno, why, sizeof why));
  }
  unlock(p);
  return WEFT_OK;
}

void wf_partial_abandon(wf_partial *p) {
  if (!p->path) return;
  wf_folder_remove(p->path);
  unlock(p);
}

void wf_folder_remove(const char *path) {
  char **names = NULL;
  size_t n = 0;
  struct stat about;
  if (!path || lstat(path, &about) != 0 || !S_ISDIR(about.st_mode)) return;
  if (wf_path_list(path, &names, &n, NULL) == WEFT_OK) {
    for (size_t i = 0; i < n; i++) {
      char *file = wf_path_join(path, names[i]);
      if (file) (void)unlink(file);
      wf_free(file);
    }
    wf_path_list_free(names, n);
  }
  (void)rmdir(path);
}

void wf_partial_sweep(const char *folder) {
  char **names = NULL;
  size_t n = 0;
  if (wf_path_list(folder, &names, &n, NULL) != WEFT_OK) return;
  for (size_t i = 0; i < n; i++) {
    struct stat about;
    if (strncmp(names[i], mark, sizeof mark - 1) != 0) continue;
    char *path = wf_path_join(folder, names[i]);
    const bool is_ours = path && lstat(path, &about) == 0 && about.st_uid == geteuid() &&
                         (S_ISDIR(about.st_mode) || S_ISREG(about.st_mode));
    const int lock = is_ours ? lock_dead(path) : -1;
    if (lock >= 0) {
      if (S_ISDIR(about.st_mode))
        wf_folder_remove(path);
      else
        (void)unlink(path);
      close(lock);
    }
    wf_free(path);
  }
  wf_path_list_free(names, n);
}

bool wf_partial_is_alive(const char *path) {
  if (strncmp(wf_path_base(path), mark, sizeof mark - 1) != 0) return false;
  const int lock = lock_dead(path);
  if (lock >= 0) close(lock);
  return lock < 0;
}
