/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a fuzz target over every file of the folders (or files) it is given, without a fuzzing
 * engine, so that each input once found stays a test. Prints how many inputs it read. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path) {
  FILE *f = fopen(path, "rb");
  if (!f) {
    perror(path);
    return -1;
  }
  uint8_t *data = NULL;
  size_t size = 0, room = 0;
  for (;;) {
    if (size == room) {
      room = room ? room * 2 : 4096;
      uint8_t *more = realloc(data, room);
      if (!more) {
        free(data);
        fclose(f);
        return -1;
      }
      data = more;
    }
    const size_t n = fread(data + size, 1, room - size, f);
    if (n == 0) break;
    size += n;
  }
  fclose(f);
  /* An exact-sized copy, so that a read past the end meets the sanitizer's red zone. */
  uint8_t *exact = malloc(size ? size : 1);
  if (exact) {
    memcpy(exact, data, size);
    fprintf(stderr, "replay %s (%zu bytes)\n", path, size);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
  }
  free(data);
  return exact ? 1 : -1;
}

static int replay_path(const char *path) {
  struct stat st;
  if (stat(path, &st) != 0) {
    fprintf(stderr, "SKIP %s: there is no corpus\n", path);
    return 0;
  }
  if (!S_ISDIR(st.st_mode)) return replay_file(path);
  DIR *dir = opendir(path);
  if (!dir) return -1;
  int n = 0;
  for (struct dirent *e; n >= 0 && (e = readdir(dir));) {
    char name[4096];
    if (e->d_name[0] == '.') continue;
    snprintf(name, sizeof name, "%s/%s", path, e->d_name);
    const int got = replay_path(name);
    n = got < 0 ? -1 : n + got;
  }
  closedir(dir);
  return n;
}

int main(int argc, char **argv) {
  int total = 0;
  for (int i = 1; i < argc; i++) {
    const int got = replay_path(argv[i]);
    if (got < 0) return 1;
    total += got;
  }
  printf("%d inputs replayed\n", total);
  return 0;
}
