/*
 * The front matter of a card: YAML between two lines of ---, for the hub. Written without a YAML library: all texts are
 * double-quoted. Read only as far as licence and base model go, from the card that the folder has or the keys of a
 * GGUF.
 */
#include "base/alloc.h"
#include "base/utf8.h"
#include "jobs/report/card.h"
#include "jobs/prune/seal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <winnow/version.h>

#define CARD_BYTES_MAX ((uint64_t)16 << 20)
#define MARK           "# Written by winnow card"
#define HUB            "https://huggingface.co/"

/* ---- writing ---- */

void wn_card_put_yaml(struct wn_html *h, const char *text)
{
    size_t left = strlen(text);

    wn_html_markup(h, "\"");
    while (left > 0) {
        char out[8];
        uint32_t code;
        size_t n = wn_utf8_decode(text, left, &code);

        if (n == 0)
            (void)snprintf(out, sizeof out, "\xef\xbf\xbd"); /* no UTF-8 */
        else if (code == '"' || code == '\\')
            (void)snprintf(out, sizeof out, "\\%c", (char)code);
        else if (code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x2028 || code == 0x2029 || code == 0xfeff ||
                 code == 0xfffe || code == 0xffff)
            (void)snprintf(out, sizeof out, "\\u%04x", (unsigned)code);
        else
            (void)snprintf(out, sizeof out, "%.*s", (int)n, text);
        wn_html_markup(h, out);
        n = n ? n : 1;
        text += n;
        left -= n;
    }
    wn_html_markup(h, "\"");
}

static void put_field(struct wn_html *h, const char *key, const char *text)
{
    wn_html_markup(h, key);
    wn_html_markup(h, ": ");
    wn_card_put_yaml(h, text);
    wn_html_markup(h, "\n");
}

/* ---- what the files tell ---- */

/* Owned; NULL: not told. */
struct told {
    char *base, *license, *license_name, *license_link;
};

/* A plain, '...' or "..." scalar; NULL when it is none of one line, or memory is out, as the next allocation tells. */
static char *scalar_of(const char *s, size_t n)
{
    struct wn_err ignored;
    char *text;

    while (n > 0 && (*s == ' ' || *s == '\t'))
        s++, n--;
    while (n > 0 && strchr(" \t\r", s[n - 1]))
        n--;
    if (n > 1 && s[0] == '"') {
        json_t *j = json_loadb(s, n, JSON_DECODE_ANY, NULL);

        text = json_is_string(j) ? wn_strdup(json_string_value(j), &ignored) : NULL;
        json_decref(j);
        return text;
    }
    if (n > 1 && s[0] == '\'' && s[n - 1] == '\'' && !memchr(s + 1, '\'', n - 2))
        return wn_strndup(s + 1, n - 2, &ignored);
    if (n == 0 || strchr("'\"[{|>&*!%@`#", *s) || memchr(s, '#', n))
        return NULL;
    return wn_strndup(s, n, &ignored);
}

/* The scalar of a key at the start of a line, or the first of its list. front: the lines between ---. */
static char *field_of(const char *front, const char *key)
{
    size_t n = strlen(key);

    for (const char *p = front; *p; p += strcspn(p, "\n"), p += *p == '\n') {
        const char *v = p + n, *next;
        size_t len;

        if (strncmp(p, key, n) != 0 || *v != ':')
            continue;
        len = strcspn(++v, "\n");
        next = v + len + (v[len] == '\n');
        if (strspn(v, " \t\r") >= len && (next += strspn(next, " "), *next == '-'))
            return scalar_of(next + 1, strcspn(next + 1, "\n"));
        return scalar_of(v, len);
    }
    return NULL;
}

static void told_by_card(struct told *t, char *text)
{
    char *front = text + strcspn(text, "\n"), *end;

    if (strncmp(text, "---", 3) != 0 || !*front || !(end = strstr(front, "\n---")))
        return;
    front++;
    if (end < front)
        return;
    *end = 0;
    t->license = field_of(front, "license");
    t->license_name = field_of(front, "license_name");
    t->license_link = field_of(front, "license_link");
    /* of a card that came along from the source, it would be the source's own base */
    if (strstr(front, MARK))
        t->base = field_of(front, "base_model");
}

static bool told_by_folder(struct told *t, const struct wn_source *s, struct wn_err *err)
{
    char *path = wn_path_join(wn_source_folder(s), WN_CARD_NAME, err), *text = NULL;
    bool ok = path != NULL;
    size_t n;

    if (ok && wn_path_is_file(path) && (ok = (text = wn_file_slurp(path, CARD_BYTES_MAX, &n, err)) != NULL))
        told_by_card(t, text);
    free(text);
    free(path);
    return ok;
}

/* Free it; NULL: there is none, or no text without NUL. */
static char *gguf_text(const struct wn_source *s, const char *key)
{
    const struct wn_gguf_kv *kv = wn_gguf_find(wn_source_gguf(s), key);
    struct wn_err ignored;
    struct wn_bytes b;

    return kv && wn_gguf_as_string(kv, &b) && b.n > 0 && !memchr(b.at, 0, b.n) ? wn_strndup(b.at, b.n, &ignored) : NULL;
}

/* "https://huggingface.co/owner/name": what stands behind the host; takes url. */
static char *hub_name(char *url)
{
    size_t n = strlen(HUB);
    const char *slash;

    if (!url || strncmp(url, HUB, n) != 0 || !(slash = strchr(url + n, '/')) || !slash[1] || strchr(slash + 1, '/')) {
        free(url);
        return NULL;
    }
    memmove(url, url + n, strlen(url + n) + 1);
    return url;
}

/* The keys are copies of the source's, so its repository is what the build was made of. */
static void told_by_gguf(struct told *t, const struct wn_source *s)
{
    t->license = gguf_text(s, "general.license");
    t->license_name = gguf_text(s, "general.license.name");
    t->license_link = gguf_text(s, "general.license.link");
    t->base = hub_name(gguf_text(s, "general.repo_url"));
    if (!t->base)
        t->base = hub_name(gguf_text(s, "general.base_model.0.repo_url"));
}

static void put_told(struct wn_html *h, const struct wn_card *c, const struct told *t)
{
    if (t->base)
        put_field(h, "base_model", t->base);
    else
        wn_html_markup(h, "# base_model: OWNER/NAME (no file of the build tells it)\n");
    if (t->base && wn_card_is_quantized(c))
        put_field(h, "base_model_relation", "quantized");
    if (t->license)
        put_field(h, "license", t->license);
    else
        wn_html_markup(h, "# license: NAME (no file of the build tells it)\n");
    if (t->license_name)
        put_field(h, "license_name", t->license_name);
    if (t->license_link)
        put_field(h, "license_link", t->license_link);
}

static void put_tag(struct wn_html *h, const char *tag)
{
    wn_html_markup(h, "- ");
    wn_card_put_yaml(h, tag);
    wn_html_markup(h, "\n");
}

static void put_tags(struct wn_html *h, const struct wn_card *c)
{
    wn_html_markup(h, "tags:\n");
    put_tag(h, "winnow");
    put_tag(h, c->in.container);
    if (c->in.architecture[0])
        put_tag(h, c->in.architecture);
    if (wn_card_experts(c).layers > 0)
        put_tag(h, "mixture-of-experts");
    if (wn_card_is_pruned(c))
        put_tag(h, "pruned");
    if (wn_card_is_quantized(c))
        put_tag(h, "quantized");
    if (wn_card_is_graded(c))
        put_tag(h, "graded");
    if (c->in.ghosts > 0)
        put_tag(h, "ghosts");
}

bool wn_card_put_front(struct wn_html *h, const struct wn_card *c, struct wn_err *err)
{
    const char *library = strcmp(c->in.container, "safetensors") == 0 ? "transformers" : c->in.container;
    struct told t = {0};
    bool ok = true;

    if (wn_source_gguf(c->source))
        told_by_gguf(&t, c->source);
    else
        ok = told_by_folder(&t, c->source, err);
    wn_html_put(h, "---\n" MARK " " WINNOW_VERSION ".\n");
    put_told(h, c, &t);
    put_field(h, "library_name", library);
    put_field(h, "pipeline_tag", "text-generation");
    put_tags(h, c);
    wn_html_put(h, "---\n\n");
    free(t.base);
    free(t.license);
    free(t.license_name);
    free(t.license_link);
    return ok;
}
