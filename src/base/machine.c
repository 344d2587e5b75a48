/* SPDX-License-Identifier: Apache-2.0 */
/* What this process may use of the machine: CPUs and memory, cgroup limits included. */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/str.h"
#include "base/thread.h"

/* Reads a small file of /proc or /sys; false when it is not there. */
static bool read_small(const char *path, char *text, size_t size) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const ssize_t n = read(fd, text, size - 1);
  close(fd);
  if (n < 0) return false;
  text[n] = '\0';
  return true;
}

const wf_group_files wf_group_files_here = {"/proc/self/cgroup", "/sys/fs/cgroup"};

/* One line of /proc/self/cgroup is `id:controllers:path`, with the controllers joined by commas in
 * version 1 and none in version 2 (cgroups(7)). */
static bool line_is_of(wf_str line, wf_str controller, wf_str *path) {
  const char *const end = line.at + line.n;
  const char *first = memchr(line.at, ':', line.n);
  if (!first) return false;
  const char *second = memchr(first + 1, ':', (size_t)(end - first - 1));
  if (!second) return false;
  *path = (wf_str){second + 1, (size_t)(end - second - 1)};
  for (const char *at = first + 1;;) {
    const char *comma = memchr(at, ',', (size_t)(second - at));
    const char *stop = comma ? comma : second;
    if (wf_str_eq((wf_str){at, (size_t)(stop - at)}, controller)) return true;
    if (!comma) return false;
    at = comma + 1;
  }
}

/* The path of this process's group among those that `controller` limits ("": version 2). */
static bool cgroup_path(const char *list, wf_str controller, char *path, size_t size) {
  char text[4096];
  if (!read_small(list, text, sizeof text)) return false;
  for (const char *at = text; *at;) {
    wf_str found, line = {at, strcspn(at, "\n")};
    if (line_is_of(line, controller, &found) && found.n < size) {
      memcpy(path, found.at, found.n);
      path[found.n] = '\0';
      return true;
    }
    at += line.n + (at[line.n] == '\n');
  }
  return false;
}

/* Calls visit(folder) for this process's group and each of its parents: a limit anywhere above
 * holds as well. Inside a container the path may not exist below the mount; the mount itself then
 * is the group. */
typedef void visit_fn(const char *folder, void *arg);
static void each_group(const wf_group_files *files, const char *controller, visit_fn *visit,
                       void *arg) {
  char path[1024];
  if (!cgroup_path(files->list, wf_str_of(controller), path, sizeof path)) path[0] = '\0';
  for (;;) {
    char folder[1280];
    snprintf(folder, sizeof folder, "%s%s%s%s", files->mount, *controller ? "/" : "", controller,
             path);
    visit(folder, arg);
    char *slash = strrchr(path, '/');
    if (!slash) return;
    *slash = '\0';
  }
}

static bool read_number(const char *folder, const char *name, uint64_t *value) {
  char path[1408], text[128];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  if (!read_small(path, text, sizeof text)) return false;
  return wf_parse_u64((wf_str){text, strcspn(text, " \n")}, value);
}

static void least_cpus_v2(const char *folder, void *arg) {
  int *cpus = arg;
  char path[1408], text[128];
  snprintf(path, sizeof path, "%s/cpu.max", folder);
  if (!read_small(path, text, sizeof text)) return;
  uint64_t quota, period;
  const size_t n = strcspn(text, " ");
  if (text[n] == '\0' || !wf_parse_u64((wf_str){text, n}, &quota)) return; /* "max 100000" */
  const char *second = text + n + 1;
  if (!wf_parse_u64((wf_str){second, strcspn(second, "\n")}, &period) || period == 0) return;
  const uint64_t allowed = (quota + period - 1) / period;
  if (allowed < (uint64_t)*cpus) *cpus = allowed ? (int)allowed : 1;
}

static void least_cpus_v1(const char *folder, void *arg) {
  int *cpus = arg;
  uint64_t quota, period;
  if (!read_number(folder, "cpu.cfs_quota_us", &quota)) return; /* -1 does not parse: no limit */
  if (!read_number(folder, "cpu.cfs_period_us", &period) || period == 0) return;
  const uint64_t allowed = (quota + period - 1) / period;
  if (allowed < (uint64_t)*cpus) *cpus = allowed ? (int)allowed : 1;
}

int wf_group_cpus(const wf_group_files *files, int cpus) {
  each_group(files, "", least_cpus_v2, &cpus);
  each_group(files, "cpu", least_cpus_v1, &cpus);
  return cpus < 1 ? 1 : cpus;
}

int wf_threads_usable(void) {
  cpu_set_t set;
  int cpus = 1;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    cpus = CPU_COUNT(&set);
  } else {
    const long online = sysconf(_SC_NPROCESSORS_ONLN); /* more than 1024 CPUs */
    if (online > 0) cpus = (int)online;
  }
  return wf_group_cpus(&wf_group_files_here, cpus);
}

/* Page cache counts as used in a group but is given back under pressure: inactive file pages are
 * not held against the limit. */
static uint64_t inactive_file(const char *folder, const char *key) {
  char path[1408], text[4096];
  snprintf(path, sizeof path, "%s/memory.stat", folder);
  if (!read_small(path, text, sizeof text)) return 0;
  const char *at = strstr(text, key);
  uint64_t v = 0;
  if (at) {
    at += strlen(key);
    wf_parse_u64((wf_str){at, strcspn(at, "\n")}, &v);
  }
  return v;
}

static void least_memory(const char *folder, uint64_t *least, const char *limit_name,
                         const char *used_name, const char *key) {
  uint64_t limit, used;
  if (!read_number(folder, limit_name, &limit)) return; /* "max" does not parse: no limit */
  if (!read_number(folder, used_name, &used)) used = 0;
  const uint64_t idle = inactive_file(folder, key);
  used = used > idle ? used - idle : 0;
  const uint64_t left = limit > used ? limit - used : 0;
  if (left < *least) *least = left;
}

static void least_memory_v2(const char *folder, void *arg) {
  least_memory(folder, arg, "memory.max", "memory.current", "\ninactive_file ");
}

static void least_memory_v1(const char *folder, void *arg) {
  least_memory(folder, arg, "memory.limit_in_bytes", "memory.usage_in_bytes",
               "\ntotal_inactive_file ");
}

uint64_t wf_group_memory(const wf_group_files *files) {
  uint64_t group = UINT64_MAX;
  each_group(files, "", least_memory_v2, &group);
  each_group(files, "memory", least_memory_v1, &group);
  return group;
}

uint64_t wf_memory_available(int *limit_is_cgroup) {
  uint64_t machine = UINT64_MAX;
  char text[4096];
  if (read_small("/proc/meminfo", text, sizeof text)) {
    const char *at = strstr(text, "MemAvailable:");
    if (at) {
      at += strlen("MemAvailable:");
      at += strspn(at, " ");
      uint64_t kib;
      if (wf_parse_u64((wf_str){at, strcspn(at, " ")}, &kib)) machine = kib * 1024;
    }
  }
  const uint64_t group = wf_group_memory(&wf_group_files_here);
  *limit_is_cgroup = group < machine;
  return group < machine ? group : machine;
}

uint64_t wf_memory_peak(void) {
  struct rusage usage;
  if (getrusage(RUSAGE_SELF, &usage) != 0) return 0;
  return (uint64_t)usage.ru_maxrss * 1024;
}
