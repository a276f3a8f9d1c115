/*
 * What the commands share: the table of commands, option parsing on top of popt, progress, sizes, JSON, and the model
 * that a word on the command line means. stdout is the result, stderr is the talk.
 */
#ifndef WN_CLI_H
#define WN_CLI_H

#include <jansson.h>
#include <limits.h>
#include <popt.h>
#include <stdarg.h>
#include <stdio.h>
#include <winnow/job.h>
#include <winnow/model.h>
#include <winnow/pool.h>

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_INTERRUPTED = 130 };

/* One command. `run` gets argv[0] = the command's name and returns the exit code. */
struct command {
    const char *name;
    const char *args;    /* "MODEL [OPTIONS]", for the usage line */
    const char *summary; /* one line, for the list of commands */
    int (*run)(const struct command *self, int argc, const char **argv);
    const char *example; /* what stands behind "winnow NAME" in a call that people type */
};

extern const struct command cmd_inspect, cmd_tokenize, cmd_corpus, cmd_logits, cmd_run, cmd_calibrate, cmd_probe,
    cmd_merge, cmd_plan, cmd_prune, cmd_convert, cmd_verify, cmd_eval, cmd_report, cmd_card;

/* What every command takes (opt.c). */
struct common {
    int json, threads, quiet;
};
extern struct common common;

/*
 * Parses argv by the command's table (a popt table; the common options are added to it). Positional arguments end up in
 * *args [*arg_count], NULL-terminated, good until the program ends; fewer than min or more than max are a usage error.
 * *code is set when the answer is false: EXIT_DONE after --help, EXIT_USAGE after a wrong call.
 */
bool opt_parse(const struct command *cmd, const struct poptOption *table, int argc, const char **argv, int min, int max,
               const char ***args, int *arg_count, int *code);

/* In a table's val column: an empty word is a value too. */
enum { OPT_MAY_BE_EMPTY = 1 };

/*
 * What a word means for an option that has an argument goes to where its table says; the word is taken (freed, or kept
 * in place of an earlier one). False, with the reason said, when it is none that the option can have (opt_value.c).
 */
bool opt_take_value(const struct command *cmd, const struct poptOption *o, char *text);

/* Says what is wrong with the call, how to get help, and returns EXIT_USAGE. */
int opt_wrong(const struct command *cmd, const char *fmt, ...) WN_PRINTF(2, 3);

/* "480GiB", "48GB", "1.5e9", "65536": bytes. False (with the reason said) when it is none. */
bool opt_bytes(const struct command *cmd, const char *name, const char *text, uint64_t *bytes);

/* --ram, NULL: not given, and *bytes stays 0, no limit. False (with the reason said) when it is no memory. */
bool opt_ram(const struct command *cmd, const char *text, uint64_t *bytes);

/* The place of text among names[n], NULL being the first; or false, with a sentence that lists them (opt_value.c). */
bool opt_word(const struct command *cmd, const char *option, const char *text, const char *const *names, int n,
              int *which);

/* An int option that was not given, where every number is one that could be. */
#define OPT_UNSET INT_MIN
/* --seq: *sequence stays 0 without it. False (with the reason said) when no sequence can be so long. */
bool opt_sequence(const struct command *cmd, int given, uint32_t *sequence);

/* The word of `words` nearest to `wrong`, or NULL when none is near. */
const char *opt_nearest(const char *wrong, const char *const *words, size_t n);

/* True once the user pressed Ctrl-C (or SIGTERM came): jobs stop at the next safe place. */
bool interrupted(void);
/*
 * Ctrl-C and SIGTERM ask to stop, a reader of stdout that leaves and a file that may not grow are errors like any
 * other, and a mapped file that shrinks or cannot be read ends the program with a sentence.
 */
void catch_signals(void);

/* Progress and notes on stderr: a line that moves on a terminal, a plain line now and then elsewhere. */
struct wn_job talk_job(void);
/* Ends a moving line, so that other text starts at the left. */
void talk_end_line(void);
void talk(const char *fmt, ...) WN_PRINTF(1, 2);

/*
 * To a person, with the control characters made visible that came in by a name, a label or a token (print.c): say to
 * stdout (line ends stay where fmt begins or ends with them), complain a line to stderr, say_text generated text: as it
 * is, but for a terminal.
 */
void say(const char *fmt, ...) WN_PRINTF(1, 2);
void complain(const char *fmt, ...) WN_PRINTF(1, 2);
bool say_text(const char *text, size_t n);
/* Ends the last line of generated text. */
bool say_line_end(void);
/*
 * The same where something went wrong in it, so that what is said begins a line. To be called in a signal handler, too.
 */
void end_text_line(void);
/* What they are made of; `keep` are the control characters that stay. False when f could not take it. */
bool print_visible(FILE *f, const char *text, size_t n, const char *keep);
bool vprint_visible(FILE *f, const char *fmt, va_list ap) WN_PRINTF(2, 0);

/* Prints "winnow: sentence" and returns the exit code that fits. */
int talk_failed(const struct wn_err *err);

/* "1.56 TB (1,560,936,091,448 bytes)"-like pieces: a size with unit in buf[size]; a number with thousands separated. */
const char *text_size(uint64_t bytes, char *buf, size_t size);
const char *text_count(uint64_t n, char *buf, size_t size);
/* "2.1 h", "35 min", "4 s" */
const char *text_time(double seconds, char *buf, size_t size);

/* JSON strings of any bytes: what is not UTF-8 in them is U+FFFD. NULL when memory is out. */
json_t *json_text(const char *text);
json_t *json_bytes(const char *bytes, size_t n);
/*
 * Add a value, which is taken, to an array or object (whose key may be any bytes), which is the answer: NULL, and all
 * is freed, when either is NULL or memory is out. So a document is built without a question and print_json asks once.
 */
json_t *json_add(json_t *array, json_t *value);
json_t *json_put(json_t *object, const char *key, json_t *value);
/* What tells a build from another with the same headers: "record_sha256" of its record, null where it has none. */
json_t *json_put_record(json_t *j, const char *sha256);
/*
 * Prints one JSON document and a line end; frees it. Returns EXIT_DONE, or EXIT_FAILED when there is none (NULL) or
 * stdout cannot take it, and says so.
 */
int print_json(json_t *j);
/* Flushes stdout; EXIT_FAILED (and says so) when it could not take everything. */
int finish_output(void);

/* To be told how the program was called, before data_dir. */
void data_dir_of_program(const char *argv0);
/* $WINNOW_DATA, the folder that was installed with this program, or the one that it was built for. */
const char *data_dir(void);

/*
 * The path that a MODEL argument means: itself when it exists, else a model of that name among those installed with
 * winnow (data_dir()/models). NULL argument: the bundled k3-mini, with a note. The answer is good until the program
 * ends.
 */
const char *model_path(const char *arg);
/* The same, opened, its ghosts (wn_model_set_ghosts) in that mode; NULL and *err on failure. */
struct wn_model *open_model(const char *arg, enum wn_ghosts ghosts, struct wn_err *err);
/* Opens that model, lets work do what it does with it, closes it; the exit code is work's. */
typedef int with_model_fn(const struct wn_model *m, const void *arg, struct wn_err *err);
int with_model(const char *model, enum wn_ghosts ghosts, with_model_fn *work, const void *arg);
/* --ghosts MODE; NULL: WN_GHOSTS_BUILT. False (with the reason said) when it is no mode. */
bool opt_ghosts(const struct command *cmd, const char *text, enum wn_ghosts *ghosts);
#define GHOSTS_HELP "what dropped experts give that the router still has: 'off', 'skip', 'mean' (default: as built)"
/* Says what a person should know about an open model (wn_model_warning), if anything. */
void tell_warning(const struct wn_model *m);
/* False (WN_ERR_ARG) when the model's context is shorter than that; asked before weights are loaded. */
bool context_fits(const struct wn_model *m, uint64_t tokens, struct wn_err *err);
/* A pool by --threads; NULL and *err on failure. */
struct wn_pool *make_pool(struct wn_err *err);

#endif
