/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

bool wf_path_exists(const char *path) { return access(path, F_OK) == 0; }

bool wf_path_is_dir(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

char *wf_path_join(const char *a, const char *b) {
  wf_buf text = {0};
  if (b[0] != '/' && a[0] != '\0') {
    wf_buf_puts(&text, a);
    if (text.n && text.at[text.n - 1] != '/') wf_buf_putc(&text, '/');
  }
  wf_buf_puts(&text, b);
  return wf_buf_take(&text);
}

char *wf_path_dir(const char *path) {
  const char *slash = strrchr(path, '/');
  wf_buf text = {0};
  if (!slash)
    wf_buf_putc(&text, '.');
  else if (slash == path)
    wf_buf_putc(&text, '/');
  else
    wf_buf_add(&text, path, (size_t)(slash - path));
  return wf_buf_take(&text);
}

const char *wf_path_base(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

weft_status wf_path_make_dirs(const char *path, bool is_private, weft_error *err) {
  weft_status st = WEFT_OK;
  char *text = strdup(path);
  if (!text) return wf_fail_memory(err, strlen(path), "a path");
  for (char *p = text + 1;; p++) {
    if (*p != '/' && *p != '\0') continue;
    const char kept = *p;
    *p = '\0';
    const bool is_made = mkdir(text, is_private ? 0700 : 0777) == 0;
    const int reason = errno;
    if (is_made && is_private) (void)chmod(text, 0700); /* a umask may have taken from that */
    errno = reason;
    if (!is_made && errno != EEXIST && !wf_path_is_dir(text)) {
      char why[128];
      st = wf_fail(err, WEFT_IO, "choose a folder that can be written",
                   "cannot make folder '%s': %s", text, strerror_r(errno, why, sizeof why));
      break;
    }
    if (kept == '\0') {
      if (!wf_path_is_dir(text)) {
        st = wf_fail(err, WEFT_IO, "choose another name", "'%s' exists and is not a folder", text);
      }
      break;
    }
    *p = kept;
  }
  free(text);
  return st;
}

static int by_bytes(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

weft_status wf_path_list(const char *dir, char ***names, size_t *n, weft_error *err) {
  weft_status st = WEFT_OK;
  WF_VEC(char *) found = {0};
  DIR *d = opendir(dir);
  if (!d) {
    char why[128];
    return wf_fail(err, WEFT_IO, "check the path", "cannot list folder '%s': %s", dir,
                   strerror_r(errno, why, sizeof why));
  }
  for (const struct dirent *entry = readdir(d); entry; entry = readdir(d)) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    char *copy = strdup(entry->d_name);
    if (!copy || !wf_vec_push(&found, copy)) {
      free(copy);
      st = wf_fail_memory(err, 0, "a list of files");
      break;
    }
  }
  closedir(d);
  if (st != WEFT_OK) {
    wf_path_list_free(found.at, found.n);
    return st;
  }
  if (found.n) qsort(found.at, found.n, sizeof found.at[0], by_bytes);
  *names = found.at;
  *n = found.n;
  return WEFT_OK;
}

void wf_path_list_free(char **names, size_t n) {
  for (size_t i = 0; i < n; i++) free(names[i]);
  wf_free(names);
}

static bool lies_under(const char *path, const char *root) {
  const size_t n = strlen(root);
  if (strcmp(root, "/") == 0) return path[0] == '/';
  return strncmp(path, root, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

/* For .../models--X/snapshots/REV[/...] gives .../models--X/blobs, else NULL (no memory included:
 * the link is then refused, which is the safe side). */
static char *hub_blobs(const char *root) {
  const char *mark = strstr(root, "/snapshots/");
  for (const char *next = mark; next; next = strstr(next + 1, "/snapshots/")) mark = next;
  if (!mark) return NULL;
  const char *repo = mark;
  while (repo > root && repo[-1] != '/') repo--;
  if (strncmp(repo, "models--", 8) != 0) return NULL;
  wf_buf text = {0};
  wf_buf_add(&text, root, (size_t)(mark - root));
  wf_buf_puts(&text, "/blobs");
  return wf_buf_take(&text);
}

static bool leaves_by_dots(const char *relative) {
  int depth = 0;
  if (relative[0] == '/') return true;
  while (*relative) {
    const size_t n = strcspn(relative, "/");
    if (n == 2 && relative[0] == '.' && relative[1] == '.')
      depth--;
    else if (n > 0 && !(n == 1 && relative[0] == '.'))
      depth++;
    if (depth < 0) return true;
    relative += n;
    while (*relative == '/') relative++;
  }
  return false;
}

weft_status wf_path_confine(const char *root, const char *relative, bool trust_links, char **result,
                            weft_error *err) {
  weft_status st = WEFT_OK;
  char *joined = NULL, *real_root = NULL, *real = NULL, *blobs = NULL;
  struct stat info;

  if (relative[0] == '\0' || leaves_by_dots(relative)) {
    st = wf_fail(err, WEFT_PACKAGE_INVALID, "name a file inside the package, relative to it",
                 "'%s' leads out of the package '%s'", relative, root);
    goto out;
  }
  joined = wf_path_join(root, relative);
  real_root = realpath(root, NULL);
  real = joined && real_root ? realpath(joined, NULL) : NULL;
  if (!joined) {
    st = wf_fail_memory(err, strlen(relative), "a path");
    goto out;
  }
  if ((!real_root || !real) && errno == ENOMEM) {
    st = wf_fail_memory(err, strlen(relative), "a path");
    goto out;
  }
  if (!real_root || !real) {
    char why[128];
    st = wf_fail(err, WEFT_PACKAGE_INVALID, "complete the package",
                 "cannot open '%s' of package '%s': %s", relative, root,
                 strerror_r(errno, why, sizeof why));
    goto out;
  }
  if (!lies_under(real, real_root) && !trust_links) {
    blobs = hub_blobs(real_root);
    if (!blobs || !lies_under(real, blobs)) {
      st = wf_fail(err, WEFT_PACKAGE_INVALID,
                   "copy the file into the package, or use --trust-links if you trust it",
                   "'%s' of package '%s' is a link that leads out to '%s'", relative, root, real);
      goto out;
    }
  }
  if (stat(real, &info) != 0 || !S_ISREG(info.st_mode)) {
    st = wf_fail(err, WEFT_PACKAGE_INVALID, "name a regular file",
                 "'%s' of package '%s' is not a file", relative, root);
    goto out;
  }
  *result = real;
  real = NULL;
out:
  free(real);
  free(real_root);
  wf_free(joined);
  wf_free(blobs);
  return st;
}

static char *cache_below(const char *variable, const char *tail) {
  const char *value = getenv(variable);
  /* the XDG specification: relative paths are to be ignored */
  return value && value[0] == '/' ? wf_path_join(value, tail) : NULL;
}

char *wf_cache_dir(void) {
  const char *own = getenv("WEFT_CACHE");
  if (own && own[0]) return wf_path_join("", own);
  char *dir = cache_below("XDG_CACHE_HOME", "weft");
  return dir ? dir : cache_below("HOME", ".cache/weft");
}
