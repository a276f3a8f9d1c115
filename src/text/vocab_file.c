/*
 * The two files a vocabulary comes in: tiktoken.model (one token a line: base64, a space, its rank, a line feed) and
 * tokenizer_config.json, which names the special tokens. Layout and limits: docs/formats/tokenizer.md.
 */
#include "base/alloc.h"
#include "base/checked.h"
#include "sys/file.h"
#include "text/base64.h"
#include "text/vocab_new.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>

#define FILE_LIMIT    (256u << 20)
#define SPECIAL_SLOTS 256u /* ids kept for special tokens behind the ranks, where config.json does not say otherwise */
#define SLOTS_LIMIT   65536u /* more is a lie: K3 has 256 */

/* The tokens as they are gathered. */
struct draft {
    struct wn_bytes *tokens;   /* owned; [n], pointing into bytes or the parsed config */
    enum wn_token_kind *kinds; /* owned; [n] */
    char *bytes;               /* owned */
    uint32_t ranks, n;         /* ids below ranks are ordinary tokens */
};

static void draft_release(struct draft *d)
{
    free(d->tokens);
    free(d->kinds);
    free(d->bytes);
}

/* Takes the next line off s, without its line feed; the last line may lack one. */
static struct wn_bytes line_take(struct wn_bytes *s)
{
    const char *end = memchr(s->at, '\n', s->n);
    struct wn_bytes line = {s->at, end ? (size_t)(end - s->at) : s->n};
    size_t used = line.n + (end ? 1 : 0);

    s->at += used;
    s->n -= used;
    return line;
}

static uint32_t line_count(struct wn_bytes s)
{
    uint32_t n = 0;

    for (; s.n > 0; n++)
        (void)line_take(&s);
    return n;
}

/* A decimal number without sign, blanks or leading zeros that fits 32 bits. */
static bool number_of(struct wn_bytes s, uint32_t *number)
{
    uint64_t x = 0;

    if (s.n == 0 || s.n > 10 || (s.n > 1 && s.at[0] == '0'))
        return false;
    for (size_t i = 0; i < s.n; i++) {
        if (s.at[i] < '0' || s.at[i] > '9')
            return false;
        x = 10 * x + (uint64_t)(s.at[i] - '0');
    }
    *number = (uint32_t)x;
    return x <= UINT32_MAX;
}

/* Line `rank` (from 0): its token's bytes go to `to`. */
static bool line_read(struct wn_bytes line, uint32_t rank, char *to, size_t *n, struct wn_err *err)
{
    const char *space = memchr(line.at, ' ', line.n);
    struct wn_bytes spelled = {line.at, space ? (size_t)(space - line.at) : 0};
    uint32_t said;

    if (!space)
        return wn_fail(err, WN_ERR_FORMAT, "no space between token and rank");
    if (!wn_base64_decode(spelled, to, n) || *n == 0)
        return wn_fail(err, WN_ERR_FORMAT, "'%.*s' is not a token in base64", (int)wn_min_size(spelled.n, 80),
                       spelled.at);
    if (!number_of((struct wn_bytes){space + 1, line.n - spelled.n - 1}, &said) || said != rank)
        return wn_fail(err, WN_ERR_FORMAT, "rank '%.*s', but ranks count up from 0 and this is %" PRIu32,
                       (int)wn_min_size(line.n - spelled.n - 1, 40), space + 1, rank);
    return true;
}

static bool draft_reserve(struct draft *d, size_t bytes, uint32_t n, struct wn_err *err)
{
    d->tokens = wn_alloc(n, sizeof *d->tokens, err);
    d->kinds = d->tokens ? wn_alloc(n, sizeof *d->kinds, err) : NULL;
    d->bytes = d->kinds ? wn_alloc(bytes, 1, err) : NULL;
    return d->bytes != NULL;
}

/* Reads all ranks and leaves room for `slots` special ids, unused so far. */
static bool draft_read(struct draft *d, struct wn_bytes tiktoken, uint32_t slots, struct wn_err *err)
{
    size_t used = 0, n;

    if (tiktoken.n > FILE_LIMIT)
        return wn_fail(err, WN_ERR_FORMAT, "tiktoken.model: %zu bytes; more than %u are not read", tiktoken.n,
                       FILE_LIMIT);
    d->ranks = line_count(tiktoken);
    d->n = d->ranks + slots;
    if (!draft_reserve(d, tiktoken.n, d->n, err))
        return false;
    for (uint32_t rank = 0; rank < d->ranks; rank++) {
        if (!line_read(line_take(&tiktoken), rank, d->bytes + used, &n, err))
            return wn_fail_in(err, "tiktoken.model line %" PRIu64, (uint64_t)rank + 1);
        d->tokens[rank] = (struct wn_bytes){d->bytes + used, n};
        used += n;
    }
    for (uint32_t id = d->ranks; id < d->n; id++)
        d->kinds[id] = WN_TOKEN_UNUSED;
    return true;
}

/* One entry of added_tokens_decoder: "163586": {"content": "<|end_of_msg|>", ...}. */
static bool special_read(struct draft *d, const char *key, const json_t *entry, struct wn_err *err)
{
    const json_t *content = json_object_get(entry, "content");
    uint32_t id;

    if (!number_of(wn_bytes_of(key), &id))
        return wn_fail(err, WN_ERR_FORMAT, "'%.40s' is not an id", key);
    if (!json_is_string(content))
        return wn_fail(err, WN_ERR_FORMAT, "id %" PRIu32 " has no string 'content'", id);
    if (id < d->ranks)
        return wn_fail(err, WN_ERR_FORMAT, "special id %" PRIu32 " is also a rank; ranks end at %" PRIu32, id,
                       d->ranks - 1);
    if (id >= d->n)
        return wn_fail(err, WN_ERR_FORMAT, "special id %" PRIu32 " is outside the vocabulary of %" PRIu32 " ids", id,
                       d->n);
    d->kinds[id] = WN_TOKEN_SPECIAL;
    d->tokens[id] = (struct wn_bytes){json_string_value(content), json_string_length(content)};
    return true;
}

static bool specials_read(struct draft *d, json_t *config, struct wn_err *err)
{
    json_t *names = json_object_get(config, "added_tokens_decoder"), *entry;
    const char *key;

    if (!json_is_object(names))
        return wn_fail(err, WN_ERR_FORMAT, "no object 'added_tokens_decoder'");
    json_object_foreach(names, key, entry)
        if (!special_read(d, key, entry, err))
            return wn_fail_in(err, "added_tokens_decoder");
    return true;
}

static json_t *json_of(struct wn_bytes text, struct wn_err *err)
{
    json_error_t why;
    json_t *json = NULL;

    if (text.n > FILE_LIMIT)
        wn_fail(err, WN_ERR_FORMAT, "%zu bytes; more than %u are not read", text.n, FILE_LIMIT);
    else if (!(json = json_loadb(text.at, text.n, JSON_REJECT_DUPLICATES, &why)))
        wn_fail(err, json_error_code(&why) == json_error_out_of_memory ? WN_ERR_NOMEM : WN_ERR_FORMAT, "line %d: %s",
                why.line, why.text);
    return json;
}

static struct wn_vocab *parse(struct wn_bytes tiktoken, const struct wn_bytes *config, uint32_t slots,
                              struct wn_err *err)
{
    struct draft d = {0};
    struct wn_vocab *v = NULL;
    json_t *json = NULL;

    if (!draft_read(&d, tiktoken, config ? slots : 0, err))
        goto done;
    if (config) {
        json = json_of(*config, err);
        if (!json || !specials_read(&d, json, err)) {
            wn_fail_in(err, "tokenizer_config.json");
            goto done;
        }
    }
    v = wn_vocab_new(d.tokens, d.kinds, d.n, err);
done:
    json_decref(json);
    draft_release(&d);
    return v;
}

struct wn_vocab *wn_vocab_parse(const char *tiktoken, size_t tiktoken_n, const char *config, size_t config_n,
                                struct wn_err *err)
{
    struct wn_bytes settings = {config, config_n};

    return parse((struct wn_bytes){tiktoken, tiktoken_n}, config ? &settings : NULL, SPECIAL_SLOTS, err);
}

/* folder/name as a string (free it). */
static bool slurp(const char *folder, const char *name, struct wn_bytes *text, struct wn_err *err)
{
    char *path = wn_path_join(folder, name, err);

    *text = (struct wn_bytes){0};
    if (path)
        text->at = wn_file_slurp(path, FILE_LIMIT, &text->n, err);
    free(path);
    return text->at != NULL;
}

/* vocab_size of a config.json (in text_config when the model also sees): all ids there are, with padding. */
static bool vocab_size_of(json_t *config, uint32_t ranks, uint32_t *slots, struct wn_err *err)
{
    json_t *text = json_object_get(config, "text_config");
    const json_t *size = json_object_get(json_is_object(text) ? text : config, "vocab_size");
    json_int_t n = json_integer_value(size);

    if (!json_is_integer(size))
        return wn_fail(err, WN_ERR_FORMAT, "no integer 'vocab_size'");
    if (n < (json_int_t)ranks || n - (json_int_t)ranks > (json_int_t)SLOTS_LIMIT)
        return wn_fail(err, WN_ERR_FORMAT,
                       "vocab_size %" JSON_INTEGER_FORMAT " does not go with %" PRIu32
                       " ranks and up to %u special ids",
                       n, ranks, SLOTS_LIMIT);
    *slots = (uint32_t)(n - (json_int_t)ranks);
    return true;
}

/* How many ids follow the ranks: as config.json says, where there is one. */
static bool slots_of(const char *folder, uint32_t ranks, uint32_t *slots, struct wn_err *err)
{
    char *path = wn_path_join(folder, "config.json", err);
    bool there = path && wn_path_exists(path), ok;
    struct wn_bytes text;
    json_t *json;

    free(path);
    *slots = SPECIAL_SLOTS;
    if (!there)
        return path != NULL;
    if (!slurp(folder, "config.json", &text, err))
        return false;
    json = json_of(text, err);
    ok = (json && vocab_size_of(json, ranks, slots, err)) || wn_fail_in(err, "config.json");
    json_decref(json);
    free((char *)text.at);
    return ok;
}

struct wn_vocab *wn_vocab_open(const char *folder, struct wn_err *err)
{
    struct wn_bytes tiktoken = {0}, config = {0};
    struct wn_vocab *v = NULL;
    uint32_t slots;

    if (!slurp(folder, "tiktoken.model", &tiktoken, err) || !slurp(folder, "tokenizer_config.json", &config, err))
        goto done;
    if (slots_of(folder, line_count(tiktoken), &slots, err))
        v = parse(tiktoken, &config, slots, err);
    if (!v)
        wn_fail_in(err, "'%s'", folder);
done:
    free((char *)tiktoken.at);
    free((char *)config.at);
    return v;
}
