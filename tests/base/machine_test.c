/* SPDX-License-Identifier: Apache-2.0 */
/* What a group of processes may use, read from trees such as the kernel shows them (its
 * documentation of cgroup v1 and v2). The sums are worked by hand. */
#include "support/test.h"

#include <ftw.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/thread.h"

#define MIB ((uint64_t)1 << 20)

static char root[64], list[96];
static wf_group_files files;

static int make_tree(void **state) {
  (void)state;
  snprintf(root, sizeof root, "/tmp/weft-machine-XXXXXX");
  if (!mkdtemp(root)) return 1;
  snprintf(list, sizeof list, "%s/list", root);
  files = (wf_group_files){list, root};
  return 0;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *at) {
  (void)info;
  (void)kind;
  (void)at;
  return remove(path);
}

static int remove_tree(void **state) {
  (void)state;
  return nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void put(const char *folder, const char *name, const char *text) {
  weft_error err = {0};
  char path[256];
  snprintf(path, sizeof path, "%s%s", root, folder);
  assert_ok(wf_path_make_dirs(path, false, &err), &err);
  snprintf(path, sizeof path, "%s%s/%s", root, folder, name);
  assert_ok(wf_file_write(path, text, strlen(text), false, &err), &err);
}

static void without_groups_there_is_no_limit(void **state) {
  (void)state;
  const wf_group_files none = {"/no such list", "/no such mount"};
  assert_int_equal(wf_group_cpus(&none, 8), 8);
  assert_int_equal(wf_group_cpus(&none, 0), 1);
  assert_true(wf_group_memory(&none) == UINT64_MAX);
  put("", "list", "0::/a\n");
  put("/a", "cpu.max", "max 100000\n");
  put("/a", "memory.max", "max\n");
  assert_int_equal(wf_group_cpus(&files, 8), 8);
  assert_true(wf_group_memory(&files) == UINT64_MAX);
}

static void the_least_quota_of_the_group_and_all_above_it_holds_rounded_up(void **state) {
  (void)state;
  put("", "list", "0::/a/b/c\n");
  put("/a", "cpu.max", "350000 100000\n");
  put("/a/b", "cpu.max", "max 100000\n");
  put("/a/b/c", "cpu.max", "600000 100000\n");
  assert_int_equal(wf_group_cpus(&files, 8), 4);
  assert_int_equal(wf_group_cpus(&files, 3), 3); /* affinity is narrower */
  put("/a/b/c", "cpu.max", "150000 100000\n");
  assert_int_equal(wf_group_cpus(&files, 8), 2);
  put("/a/b/c", "cpu.max", "1000 100000\n");
  assert_int_equal(wf_group_cpus(&files, 8), 1);
  put("/a/b/c", "cpu.max", "100000 0\n"); /* no kernel says so */
  assert_int_equal(wf_group_cpus(&files, 8), 4);
}

/* Page cache that was not used for long is given back, so it does not count as used. */
static void the_least_memory_left_anywhere_above_holds(void **state) {
  (void)state;
  put("", "list", "0::/a/b\n");
  put("/a", "memory.max", "524288000\n");     /* 500 MiB */
  put("/a", "memory.current", "419430400\n"); /* 400 MiB, of which */
  put("/a", "memory.stat", "anon 1\nfile 2\ninactive_file 104857600\nactive_file 9\n"); /* 100 */
  assert_true(wf_group_memory(&files) == 200 * MIB);
  put("/a/b", "memory.max", "314572800\n");
  put("/a/b", "memory.current", "209715200\n");
  assert_true(wf_group_memory(&files) == 100 * MIB);
  put("/a/b", "memory.current", "400000000\n");
  assert_true(wf_group_memory(&files) == 0);
}

static void the_first_version_s_hierarchies_are_read_too(void **state) {
  (void)state;
  put("", "list", "12:cpu,cpuacct:/x\n5:memory:/x\n1:name=systemd:/x\n");
  put("/cpu/x", "cpu.cfs_quota_us", "250000\n");
  put("/cpu/x", "cpu.cfs_period_us", "100000\n");
  put("/cpu", "cpu.cfs_quota_us", "-1\n");
  put("/memory", "memory.limit_in_bytes", "9223372036854771712\n");
  put("/memory/x", "memory.limit_in_bytes", "104857600\n");
  put("/memory/x", "memory.usage_in_bytes", "62914560\n");
  put("/memory/x", "memory.stat", "cache 1\ntotal_inactive_file 10485760\n");
  assert_int_equal(wf_group_cpus(&files, 8), 3);
  assert_true(wf_group_memory(&files) == 50 * MIB);
}

/* A hierarchy may hold one controller or several, in any order. */
static void a_controller_is_found_alone_and_among_others(void **state) {
  (void)state;
  const char *lists[] = {"4:cpu:/x\n", "4:cpuset,cpu:/x\n", "7:cpuacct:/y\n4:cpu,cpuacct:/x\n",
                         "7:cpuset:/y\n4:cpuacct,cpu,net_cls:/x"};
  put("/cpu/x", "cpu.cfs_quota_us", "250000\n");
  put("/cpu/x", "cpu.cfs_period_us", "100000\n");
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
    put("", "list", lists[i]);
    assert_int_equal(wf_group_cpus(&files, 8), 3);
  }
  put("", "list", "7:cpuset:/x\n8:cpuacct:/x\n");
  assert_int_equal(wf_group_cpus(&files, 8), 8);
}

/* Inside a container the list names a path of the host that the mount does not have. */
static void in_a_container_the_mount_itself_is_the_group(void **state) {
  (void)state;
  put("", "list", "0::/host/path\n");
  put("", "cpu.max", "200000 100000\n");
  put("", "memory.max", "1048576\n");
  assert_int_equal(wf_group_cpus(&files, 8), 2);
  assert_true(wf_group_memory(&files) == MIB);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(without_groups_there_is_no_limit, make_tree, remove_tree),
      cmocka_unit_test_setup_teardown(
          the_least_quota_of_the_group_and_all_above_it_holds_rounded_up, make_tree, remove_tree),
      cmocka_unit_test_setup_teardown(the_least_memory_left_anywhere_above_holds, make_tree,
                                      remove_tree),
      cmocka_unit_test_setup_teardown(the_first_version_s_hierarchies_are_read_too, make_tree,
                                      remove_tree),
      cmocka_unit_test_setup_teardown(a_controller_is_found_alone_and_among_others, make_tree,
                                      remove_tree),
      cmocka_unit_test_setup_teardown(in_a_container_the_mount_itself_is_the_group, make_tree,
                                      remove_tree),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
