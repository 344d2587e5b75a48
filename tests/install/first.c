/* SPDX-License-Identifier: Apache-2.0 */
/* The README's first program, compiled against the installed library by install_test.sh. */
#include <stdio.h>
#include <weft/weft.h>

static int on_token(void *user, weft_generation *g, const weft_token *token) {
  (void)user;
  (void)g;
  fwrite(token->text, 1, token->n_text, stdout);
  fflush(stdout);
  return 0; /* anything else cancels */
}

int main(int argc, char **argv) {
  static const char chat[] = "[{\"role\": \"user\", \"content\": \"What is a loom?\"}]";
  weft_error err = {.struct_size = sizeof err};
  weft_model *model = NULL;
  weft_generation *answer = NULL;
  int32_t *ids = NULL;
  size_t n_ids = 0;

  if (weft_model_open(&model, argc > 1 ? argv[1] : "build/demo/SmolLM2-135M-Instruct.Q4_1", NULL,
                      &err) ||
      weft_chat_ids(model, chat, sizeof chat - 1, &ids, &n_ids, &err) ||
      weft_generation_create(&answer, model, NULL, &err) ||
      weft_generation_append(answer, ids, n_ids, &err) ||
      weft_generation_run(answer, on_token, NULL, NULL, &err)) {
    fprintf(stderr, "%s: %s. %s\n", weft_status_name(err.status), err.what, err.fix);
  }
  weft_generation_close(answer);
  weft_free(ids);
  weft_model_close(model);
  return err.status;
}
