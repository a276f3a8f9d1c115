/* See code_imports.h. */
#include "jobs/prune/code_imports.h"

/* What is left of the text. */
struct reader {
    const char *at, *end;
};

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static void skip_blanks(struct reader *r)
{
    while (r->at < r->end && is_blank(*r->at))
        r->at++;
}

static void skip_line(struct reader *r)
{
    while (r->at < r->end && *r->at != '\n')
        r->at++;
}

/* Letters, digits and underscores; empty where there are none. */
static struct wn_bytes word(struct reader *r)
{
    const char *start = r->at;

    while (r->at < r->end && is_letter(*r->at))
        r->at++;
    return (struct wn_bytes){start, (size_t)(r->at - start)};
}

static bool take_word(struct reader *r, const char *wanted)
{
    struct reader before = *r;

    skip_blanks(r);
    if (wn_bytes_is(word(r), wanted))
        return true;
    *r = before;
    return false;
}

/* Between the names of a list in brackets, lines end and comments stand. */
static void skip_between(struct reader *r, bool brackets)
{
    while (r->at < r->end &&
           (is_blank(*r->at) || *r->at == ',' || *r->at == '\r' || (brackets && (*r->at == '\n' || *r->at == '#')))) {
        if (*r->at == '#')
            skip_line(r);
        else
            r->at++;
    }
}

/* "x, y as z" to the line's end, or "(x, y as z)". */
static bool take_list(struct reader *r, wn_import_fn *tell, void *arg, struct wn_err *err)
{
    bool brackets;

    skip_blanks(r);
    brackets = r->at < r->end && *r->at == '(';
    r->at += brackets;
    for (;;) {
        struct wn_bytes name;

        skip_between(r, brackets);
        name = word(r);
        if (name.n == 0)
            return true;
        if (!tell(arg, name, err))
            return false;
        if (take_word(r, "as")) {
            skip_blanks(r);
            (void)word(r);
        }
    }
}

static bool take_line(struct reader *r, wn_import_fn *tell, void *arg, struct wn_err *err)
{
    struct wn_bytes module;

    if (!take_word(r, "from"))
        return true;
    skip_blanks(r);
    if (r->at == r->end || *r->at != '.')
        return true;
    r->at++;
    module = word(r);
    if (!take_word(r, "import")) /* of a package */
        return true;
    return module.n ? tell(arg, module, err) : take_list(r, tell, arg, err);
}

bool wn_code_imports(struct wn_bytes text, wn_import_fn *tell, void *arg, struct wn_err *err)
{
    struct reader r = {text.at, text.at + text.n};

    while (r.at < r.end) {
        if (!take_line(&r, tell, arg, err))
            return false;
        skip_line(&r);
        r.at += r.at < r.end;
    }
    return true;
}
