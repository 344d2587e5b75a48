/* SPDX-License-Identifier: Apache-2.0 */
/* stdout, stderr, signals and the locale of the program. The library touches none of these. */
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

static int out_error; /* errno of the first failed write to stdout */

void cli_out(const void *bytes, size_t n) {
  const char *p = bytes;
  while (n > 0 && !out_error) {
    const ssize_t done = write(STDOUT_FILENO, p, n);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) {
      out_error = errno;
      return;
    }
    p += done;
    n -= (size_t)done;
  }
}

void cli_puts(const char *text) { cli_out(text, strlen(text)); }

bool cli_out_failed(void) { return out_error != 0; }

int cli_out_close(int code) {
  if (!out_error) return code;
  char why[128];
  cli_err("weft: cannot write to stdout: %s\n", strerror_r(out_error, why, sizeof why));
  return code ? code : WEFT_IO;
}

void cli_err(const char *fmt, ...) {
  char text[4096];
  va_list args;
  va_start(args, fmt);
  const int n = vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  size_t left = n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1;
  for (const char *p = text; left > 0;) {
    const ssize_t done = write(STDERR_FILENO, p, left);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return; /* a closed or full stderr changes nothing */
    p += done;
    left -= (size_t)done;
  }
}

int cli_fail(const weft_error *err) {
  cli_err("weft: %s\n", err->what);
  if (err->fix[0]) cli_err("  fix: %s\n", err->fix);
  return (int)err->status;
}

int cli_fail_memory(void) {
  cli_err("weft: no memory\n  fix: free memory\n");
  return WEFT_OUT_OF_MEMORY;
}

void cli_progress(void *user, uint64_t done, uint64_t total, const char *what) {
  (void)user;
  if (!isatty(STDERR_FILENO)) return;
  if (total && done >= total) {
    cli_err("\r\033[K");
  } else {
    cli_err("\r%s %3d%%", what, total ? (int)(done * 100 / total) : 0);
  }
}

void cli_log_line(void *user, int level, const char *line) {
  static const char *const names[] = {"error", "warning", "info", "debug"};
  const int *most = user;
  if (level > *most) return;
  cli_err("weft: %s: %s\n", names[level < 0 ? 0 : level > 3 ? 3 : level], line);
}

/* ---- signals ---- */

static weft_cancel *_Atomic interrupt_target;
static const char *_Atomic interrupt_text;
static volatile sig_atomic_t was_interrupted, is_at_prompt, is_noted;

static volatile sig_atomic_t ended_by; /* SIGTERM or SIGHUP, noted while an import runs */

/* As the signal does by itself, so that whoever waits for us sees which it was. */
static _Noreturn void end_by(int signal_number) {
  sigset_t set;
  (void)signal(signal_number, SIG_DFL);
  sigemptyset(&set);
  sigaddset(&set, signal_number);
  (void)raise(signal_number);
  pthread_sigmask(SIG_UNBLOCK, &set, NULL); /* inside its own handler it comes now */
  _exit(128 + signal_number);
}

static void on_end(int signal_number) {
  if (!is_noted || ended_by) end_by(signal_number); /* a second one means it */
  ended_by = signal_number;
  was_interrupted = 1;
}

static _Noreturn void leave_interrupted(bool has_answer) {
  const char *last = atomic_load(&interrupt_text);
  if (ended_by) end_by(ended_by);
  if (last && !has_answer) cli_out(last, strlen(last)); /* write(2) alone: safe in a handler */
  _exit(CLI_INTERRUPTED);
}

int cli_interrupted_code(void) {
  if (ended_by) end_by(ended_by);
  return CLI_INTERRUPTED;
}

static void on_interrupt(int signal_number) {
  (void)signal_number;
  weft_cancel *c = atomic_load(&interrupt_target);
  if (is_at_prompt) { /* one that meant the answer which has just ended must lose no conversation */
    static const char hint[] = "\n(/exit or Ctrl-D leaves)\n";
    const ssize_t ignored = write(STDERR_FILENO, hint, sizeof hint - 1);
    (void)ignored;
    was_interrupted = 1;
    return;
  }
  if (is_noted && !was_interrupted) {
    was_interrupted = 1;
    return;
  }
  if (!c || was_interrupted) leave_interrupted(c != NULL); /* a second one means it */
  was_interrupted = 1;
  weft_cancel_request(c);
}

/* A mapped file that shrank under us: the pages are gone, and so is any way to go on. */
static void on_bus_error(int signal_number) {
  (void)signal_number;
  static const char text[] =
      "weft: a file of the package became shorter or unreadable while it was in use\n"
      "  fix: load again once nothing writes to it; replace files by rename, not in place\n";
  const ssize_t ignored = write(STDERR_FILENO, text, sizeof text - 1);
  (void)ignored;
  _exit(WEFT_PACKAGE_INVALID);
}

void cli_interrupt_target(weft_cancel *c) { atomic_store(&interrupt_target, c); }
void cli_interrupt_text(const char *text) { atomic_store(&interrupt_text, text); }
void cli_interrupt_noted(bool yes) { is_noted = yes; }
int cli_is_interrupted(void *user) {
  (void)user;
  return was_interrupted;
}
void cli_interrupt_at_prompt(bool yes) { is_at_prompt = yes; }

/* The signal is let in only while poll sleeps: one that came a moment earlier has set the flag, and
 * none can come between the look at it and the sleep. */
bool cli_read_byte(unsigned char *byte) {
  sigset_t interrupt, before;
  struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
  ssize_t n = -1;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  pthread_sigmask(SIG_BLOCK, &interrupt, &before);
  while (!was_interrupted) {
    if (ppoll(&input, 1, NULL, &before) < 0 && errno == EINTR) continue;
    n = read(STDIN_FILENO, byte, 1);
    if (n >= 0 || errno != EINTR) break;
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return n == 1;
}

bool cli_was_interrupted(void) { return was_interrupted != 0; }
void cli_interrupt_clear(void) { was_interrupted = 0; }

/* A descriptor that was closed by the caller must not be taken by a model file: stand-ins that can
 * be neither read nor written keep the numbers. */
static void hold_descriptors(void) {
  for (int fd = 0; fd <= 2; fd++) {
    if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    const int got = open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
    if (got >= 0 && got != fd) close(got);
  }
}

void cli_process_init(void) {
  hold_descriptors();
  /* characters only: numbers are read and written without regard to any locale */
  if (!setlocale(LC_CTYPE, "") || strcmp(setlocale(LC_CTYPE, NULL), "C") == 0) {
    (void)setlocale(LC_CTYPE, "C.UTF-8");
  }
  struct sigaction action;
  memset(&action, 0, sizeof action);
  sigemptyset(&action.sa_mask);
  action.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &action, NULL); /* writes report EPIPE instead */
  sigaction(SIGXFSZ, &action, NULL); /* and EFBIG, so that what was begun is cleared away */
  action.sa_handler = on_interrupt;
  sigaction(SIGINT, &action, NULL);
  static const int endings[] = {SIGTERM, SIGHUP};
  for (size_t i = 0; i < 2; i++) { /* nohup's wish is respected */
    struct sigaction before;
    action.sa_handler = on_end;
    if (sigaction(endings[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN) {
      sigaction(endings[i], &action, NULL);
    }
  }
  action.sa_handler = on_bus_error;
  sigaction(SIGBUS, &action, NULL);
}

/* By its first bytes, as the library tells: a hub's blobs have no suffix. */
static bool is_import(const char *path) {
  char magic[4];
  const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd < 0) return false;
  const bool yes = pread(fd, magic, sizeof magic, 0) == 4 && memcmp(magic, "GGUF", 4) == 0;
  close(fd);
  return yes;
}

void cli_import_begin(const char *path) { cli_interrupt_noted(is_import(path)); }

void cli_import_end(const char *path) {
  cli_interrupt_noted(false);
  if (is_import(path) && was_interrupted) leave_interrupted(false);
}

weft_status cli_model_open(weft_model **model, const char *path, const weft_model_options *options,
                           weft_error *err) {
  cli_import_begin(path);
  const weft_status st = weft_model_open(model, path, options, err);
  if (is_import(path) && was_interrupted && st == WEFT_OK) weft_model_close(*model);
  cli_import_end(path);
  return st;
}
