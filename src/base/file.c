/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/partial.h"

static weft_status fail_errno(weft_error *err, const char *doing, const char *path) {
  char text[128];
  const int e = errno;
  const char *why = strerror_r(e, text, sizeof text); /* the GNU form returns its text */
  if (e == ENOMEM) return wf_fail_memory(err, 0, path);
  return wf_fail(err, WEFT_IO,
                 e == ENOENT ? "check the path" : "check the path, its permissions and the disk",
                 "cannot %s '%s': %s", doing, path, why);
}

static weft_status check_lfs(const wf_map *m, weft_error *err) {
  static const char stub[] = "version https://git-lfs.github.com/spec/";
  if (m->n_bytes >= sizeof stub - 1 && memcmp(m->at, stub, sizeof stub - 1) == 0) {
    return wf_fail(err, WEFT_PACKAGE_INVALID, "fetch the real file with 'git lfs pull'",
                   "'%s' is a Git LFS pointer, not the file itself", m->path);
  }
  return WEFT_OK;
}

weft_status wf_map_open(wf_map *m, const char *path, weft_error *err) {
  weft_status st = WEFT_OK;
  struct stat info;
  *m = (wf_map){0};
  const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd < 0) return fail_errno(err, "open", path);
  if (fstat(fd, &info) != 0) {
    st = fail_errno(err, "read", path);
    goto out;
  }
  if (!S_ISREG(info.st_mode)) {
    st = wf_fail(err, WEFT_IO, "name a regular file", "'%s' is %s, not a file", path,
                 S_ISDIR(info.st_mode) ? "a folder" : "a device or pipe");
    goto out;
  }
  m->path = strdup(path);
  if (!m->path) {
    st = wf_fail_memory(err, strlen(path), "a path");
    goto out;
  }
  m->n_bytes = m->file_bytes = (size_t)info.st_size;
  m->device = (uint64_t)info.st_dev;
  m->inode = (uint64_t)info.st_ino;
  m->mtime_s = (int64_t)info.st_mtim.tv_sec;
  m->mtime_ns = (int64_t)info.st_mtim.tv_nsec;
  static const unsigned char empty[1];
  if (m->n_bytes == 0) {
    m->at = empty;
  } else {
    void *at = mmap(NULL, m->n_bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) {
      st = fail_errno(err, "map", path);
      goto out;
    }
    m->at = at;
  }
  st = check_lfs(m, err);
out:
  close(fd);
  if (st != WEFT_OK) wf_map_close(m);
  return st;
}

static void unmap(wf_map *m) {
  if (m->taken)
    wf_free(m->taken);
  else if (m->at && m->n_bytes)
    munmap(wf_unconst(m->at), m->n_bytes); /* munmap takes void * */
}

void wf_map_take(wf_map *m, char *bytes, size_t n_bytes) {
  unmap(m);
  m->at = (const unsigned char *)bytes;
  m->n_bytes = n_bytes;
  m->taken = bytes;
}

void wf_map_close(wf_map *m) {
  unmap(m);
  free(m->path);
  *m = (wf_map){0};
}

weft_status wf_map_check(const wf_map *m, weft_error *err) {
  struct stat info;
  if (stat(m->path, &info) != 0) return fail_errno(err, "read again", m->path);
  if ((uint64_t)info.st_dev == m->device && (uint64_t)info.st_ino == m->inode &&
      (uint64_t)info.st_size == m->file_bytes && (int64_t)info.st_mtim.tv_sec == m->mtime_s &&
      (int64_t)info.st_mtim.tv_nsec == m->mtime_ns) {
    return WEFT_OK;
  }
  return wf_fail(err, WEFT_PACKAGE_INVALID,
                 "load again once nothing writes to it; replace files by rename, not in place",
                 "'%s' changed while it was being read", m->path);
}

void wf_map_drop(const wf_map *m, size_t at, size_t n_bytes) {
  if (m->n_bytes == 0 || at >= m->n_bytes) return;
  if (m->taken) return; /* the only copy */
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  if (n_bytes > m->n_bytes - at) n_bytes = m->n_bytes - at;
  const size_t first = (at + page - 1) & ~(page - 1), end = (at + n_bytes) & ~(page - 1);
  /* advice only: a kernel that refuses it changes nothing but memory use */
  if (end > first) (void)madvise(wf_unconst(m->at + first), end - first, MADV_DONTNEED);
}

void wf_map_will_need(const wf_map *m) {
  if (m->n_bytes && !m->taken)
    (void)madvise(wf_unconst(m->at), m->n_bytes, MADV_WILLNEED); /* advice only */
}

weft_status wf_file_read(const char *path, size_t limit, char **result, size_t *n_bytes,
                         weft_error *err) {
  weft_status st = WEFT_OK;
  wf_buf b = {0};
  const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
  if (fd < 0) return fail_errno(err, "open", path);
  for (;;) {
    if (!wf_buf_reserve(&b, 65536)) {
      st = wf_fail_memory(err, b.n, path);
      goto out;
    }
    const ssize_t got = read(fd, b.at + b.n, b.capacity - b.n - 1);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      st = fail_errno(err, "read", path);
      goto out;
    }
    if (got == 0) break;
    b.n += (size_t)got;
    if (b.n > limit) {
      st = wf_fail(err, WEFT_LIMIT, "use a smaller file", "'%s' is larger than %zu bytes", path,
                   limit);
      goto out;
    }
  }
  *n_bytes = b.n;
  *result = wf_buf_take(&b);
out:
  close(fd);
  wf_buf_deinit(&b);
  return st;
}

struct wf_writer {
  int fd;
  int error; /* errno of the first failure */
  char *path, *temporary;
  uint64_t at;
  bool has_stamp;
  int64_t stamp_s;
  size_t n_pending;
  unsigned char pending[65536];
};

weft_status wf_writer_create(wf_writer **result, const char *path, bool is_private,
                             weft_error *err) {
  weft_status st = WEFT_OK;
  wf_writer *w = wf_zalloc(sizeof *w);
  if (!w) return wf_fail_memory(err, sizeof *w, "a file buffer");
  w->fd = -1;
  w->path = strdup(path);
  struct stat info;
  if (stat(path, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) {
    /* /dev/stdout, /dev/null, a pipe: renaming a file over it would destroy it */
    w->fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (w->fd < 0) {
      st = fail_errno(err, "write", path);
    } else if (!w->path) {
      st = wf_fail_memory(err, strlen(path), "a path");
    } else {
      *result = w;
      w = NULL;
    }
    goto out;
  }
  if (!w->path) {
    st = wf_fail_memory(err, strlen(path), "a path");
    goto out;
  }
  WF_TRY(wf_partial_file(path, is_private, &w->temporary, &w->fd, err));
  *result = w;
  w = NULL;
out:
  wf_writer_abandon(w);
  return st;
}

static void flush(wf_writer *w) {
  size_t done = 0;
  while (done < w->n_pending && !w->error) {
    const ssize_t n = write(w->fd, w->pending + done, w->n_pending - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      w->error = errno;
    else
      done += (size_t)n;
  }
  w->n_pending = 0;
}

void wf_writer_add(wf_writer *w, const void *bytes, size_t n) {
  const unsigned char *p = bytes;
  w->at += n;
  while (n > 0) {
    if (w->n_pending == sizeof w->pending) flush(w);
    const size_t room = sizeof w->pending - w->n_pending;
    const size_t part = n < room ? n : room;
    memcpy(w->pending + w->n_pending, p, part);
    w->n_pending += part;
    p += part;
    n -= part;
  }
}

void wf_writer_pad(wf_writer *w, size_t align) {
  static const unsigned char zeros[64];
  size_t n = (size_t)(-w->at & (uint64_t)(align - 1));
  while (n > 0) {
    const size_t part = n < sizeof zeros ? n : sizeof zeros;
    wf_writer_add(w, zeros, part);
    n -= part;
  }
}

uint64_t wf_writer_at(const wf_writer *w) { return w->at; }

void wf_writer_stamp(wf_writer *w, int64_t mtime_s) {
  w->has_stamp = true;
  w->stamp_s = mtime_s;
}

weft_status wf_writer_commit(wf_writer *w, weft_error *err) {
  weft_status st = WEFT_OK;
  flush(w);
  if (!w->error && w->has_stamp) {
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = (time_t)w->stamp_s}};
    if (futimens(w->fd, times) != 0) w->error = errno;
  }
  if (!w->error && fsync(w->fd) != 0 && errno != EINVAL && errno != EROFS) w->error = errno;
  if (close(w->fd) != 0 && !w->error) w->error = errno;
  w->fd = -1;
  if (!w->error && w->temporary && rename(w->temporary, w->path) != 0) w->error = errno;
  if (w->error) {
    errno = w->error;
    st = fail_errno(err, "write", w->path);
  } else {
    wf_free(w->temporary);
    w->temporary = NULL;
  }
  wf_writer_abandon(w);
  return st;
}

void wf_writer_abandon(wf_writer *w) {
  if (!w) return;
  if (w->fd >= 0) close(w->fd);
  if (w->temporary) unlink(w->temporary);
  wf_free(w->temporary);
  free(w->path);
  wf_free(w);
}

weft_status wf_file_write(const char *path, const void *bytes, size_t n, bool is_private,
                          weft_error *err) {
  wf_writer *w = NULL;
  WF_RETURN_IF_ERROR(wf_writer_create(&w, path, is_private, err));
  wf_writer_add(w, bytes, n);
  return wf_writer_commit(w, err);
}
