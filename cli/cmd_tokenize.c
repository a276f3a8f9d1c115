/*
 * winnow tokenize: text to ids and back.
 */
#include "cli.h"
#include "text_arg.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <winnow/model.h>

static struct {
    int special, pieces;
    char *ids;
} o;

static const struct poptOption table[] = {
    {"special", 's', POPT_ARG_NONE, &o.special, 0, "spelled special tokens become their ids", NULL},
    {"pieces", 'p', POPT_ARG_NONE, &o.pieces, 0, "print each token with its text", NULL},
    {"ids", 'i', POPT_ARG_STRING, &o.ids, OPT_MAY_BE_EMPTY, "turn these ids into text instead ('-': from stdin)",
     "1,2,3"},
    POPT_TABLEEND};

/* A token's bytes as a JSON string: valid UTF-8 as it is, anything else by U+FFFD. */
static json_t *json_token(const struct wn_vocab *v, uint32_t id)
{
    size_t n;
    const char *bytes = wn_vocab_token(v, id, &n);

    return json_bytes(bytes ? bytes : "", bytes ? n : 0);
}

static int print_ids(const struct wn_vocab *v, const uint32_t *ids, size_t count)
{
    if (common.json) {
        json_t *a = json_array(), *p = json_array();

        for (size_t i = 0; i < count; i++) {
            a = json_add(a, json_integer(ids[i]));
            p = json_add(p, json_token(v, ids[i]));
        }
        return print_json(json_pack("{sI so so}", "count", (json_int_t)count, "ids", a, "pieces", p));
    }
    for (size_t i = 0; i < count; i++) {
        if (o.pieces) {
            json_t *j = json_token(v, ids[i]);
            char *text = json_dumps(j, JSON_ENCODE_ANY);

            say("%8" PRIu32 "  %s%s\n", ids[i], text ? text : "", wn_vocab_is_special(v, ids[i]) ? "  (special)" : "");
            free(text);
            json_decref(j);
        } else {
            say("%s%" PRIu32, i ? "," : "", ids[i]);
        }
    }
    if (!o.pieces)
        putchar('\n');
    return finish_output();
}

static int to_ids(const struct wn_vocab *v, const char *arg, struct wn_err *err)
{
    size_t n, count;
    char *text = text_argument(arg ? arg : "-", &n, err);
    uint32_t *ids;
    int code;

    if (!text)
        return talk_failed(err);
    if (!wn_vocab_encode(v, text, n, o.special, &ids, &count, err)) {
        free(text);
        return talk_failed(err);
    }
    code = print_ids(v, ids, count);
    free(ids);
    free(text);
    return code;
}

static int to_text(const struct wn_vocab *v, struct wn_err *err)
{
    size_t n, count;
    char *list = text_argument(o.ids, &n, err), *text;
    uint32_t *ids;
    int code;

    if (!list)
        return talk_failed(err);
    if (!ids_argument(list, n, &ids, &count, err)) {
        free(list);
        code = talk_failed(err);
        return strcmp(o.ids, "-") == 0 ? code : EXIT_USAGE;
    }
    free(list);
    text = wn_vocab_decode(v, ids, count, &n, err);
    if (!text) {
        free(ids);
        return talk_failed(err);
    }
    if (common.json) {
        json_t *s = json_stringn(text, n);

        code = print_json(s ? json_pack("{so}", "text", s) : json_pack("{sn ss}", "text", "note", "not valid UTF-8"));
    } else {
        (void)say_text(text, n); /* finish_output sees what failed */
        code = finish_output();
    }
    free(text);
    free(ids);
    return code;
}

/* with_model_fn */
static int tokenize(const struct wn_model *m, const void *text, struct wn_err *err)
{
    const struct wn_vocab *v = wn_model_vocab(m, err);

    if (!v)
        return talk_failed(err);
    return o.ids ? to_text(v, err) : to_ids(v, text, err);
}

static int run(const struct command *self, int argc, const char **argv)
{
    const char **args;
    int n, code;

    if (!opt_parse(self, table, argc, argv, 1, 2, &args, &n, &code))
        return code;
    if (o.ids && n == 2)
        return opt_wrong(self, "--ids and TEXT exclude each other");
    return with_model(args[0], WN_GHOSTS_BUILT, tokenize, args[1]);
}

const struct command cmd_tokenize = {"tokenize", "MODEL [TEXT] [OPTIONS]",
                                     "turn text into token ids (TEXT absent or '-': stdin) and back", run,
                                     "k3-mini \"Hello, world\" --pieces"};
