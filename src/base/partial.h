/* SPDX-License-Identifier: Apache-2.0 */
/* What is being written beside its final place: files and folders under names of their own, so that
 * nobody takes half of one for the whole. Their writer holds a lock on them; what a writer has left
 * that died is known by that and swept away by the next. Thread: any. */
#ifndef WF_PARTIAL_H
#define WF_PARTIAL_H

#include <stdbool.h>

#include "base/error.h"

/* A new, empty file in the folder of `path`, whatever the length of that name. Mode 0600 if
 * is_private, else as the umask says. Owner: *temporary (wf_free), *fd. Errors: IO, OUT_OF_MEMORY.
 */
weft_status wf_partial_file(const char *path, bool is_private, char **temporary, int *fd,
                            weft_error *err) WF_NODISCARD;

typedef struct wf_partial {
  char *path; /* NULL: none */
  int lock;
} wf_partial;

/* A new, empty folder beside `path`; mode 0700 if is_private, else as the umask says. Sweeps those
 * of dead writers away first. Owner: *p, released by wf_partial_rename or wf_partial_abandon.
 * Errors: IO, OUT_OF_MEMORY. */
weft_status wf_partial_folder(wf_partial *p, const char *path, bool is_private,
                              weft_error *err) WF_NODISCARD;
/* Gives the finished folder its name. After an error it is still there. Errors: IO. */
weft_status wf_partial_rename(wf_partial *p, const char *path, weft_error *err) WF_NODISCARD;
void wf_partial_abandon(wf_partial *p); /* removes it; fine on one that is gone */

/* Removes what dead writers of this user have left in the folder. */
void wf_partial_sweep(const char *folder);
/* Is it what somebody is writing? */
bool wf_partial_is_alive(const char *path);

/* Removes a folder of plain files: never follows a link, in it or in its place, and never goes
 * deeper. NULL is fine. */
void wf_folder_remove(const char *path);

#endif
