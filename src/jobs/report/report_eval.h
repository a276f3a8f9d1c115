/*
 * Results of `winnow eval --json`, as a report shows them: the fields that are known, whatever else there is.
 */
#ifndef WN_JOBS_REPORT_REPORT_EVAL_H
#define WN_JOBS_REPORT_REPORT_EVAL_H

#include <jansson.h>
#include <winnow/error.h>

enum wn_report_field {
    WN_REPORT_PERPLEXITY,
    WN_REPORT_NLL,
    WN_REPORT_PREDICTED,
    WN_REPORT_WINDOWS,
    WN_REPORT_GHOSTED,
    WN_REPORT_GHOST_CHOICES,
    WN_REPORT_KLD_MEAN,
    WN_REPORT_KLD_MEDIAN,
    WN_REPORT_KLD_P90,
    WN_REPORT_KLD_P99,
    WN_REPORT_ARGMAX,
    WN_REPORT_PPL_RATIO,
    WN_REPORT_MISROUTE,
    WN_REPORT_FIELDS
};

/* How a field is called in JSON and on the page; decimals of its number, after multiplying by scale ("%" is 100). */
struct wn_report_field_name {
    const char *key, *title, *unit;
    double scale;
    unsigned decimals;
};
extern const struct wn_report_field_name wn_report_fields[WN_REPORT_FIELDS];

/* Not a number: not there. low .. high is an interval. */
struct wn_report_value {
    double value, low, high;
};

struct wn_report_domain {
    char *domain; /* owned */
    struct wn_report_value field[WN_REPORT_FIELDS];
};

struct wn_report_eval {
    char *model;    /* "" when it is not told. Owned, like domains */
    char *masked;   /* the plan's file, where experts were masked; "" otherwise. Owned */
    char ghosts[8]; /* "off", "skip", "mean"; empty when it is not told */
    double window;  /* tokens; not a number when it is not told */
    struct wn_report_domain *domains;
    size_t domain_count;
};

/*
 * A field is a number in its domain's object; KEY_interval beside it, where it is there, a list of low and high.
 * "overall" beside the domains is one more, named so.
 *
 * Refused: what is not a JSON object with a list "domains" of objects that have a text "domain", and figures that no
 * text can give, like a perplexity below 1. All zero on failure.
 */
WN_CHECKED bool wn_report_eval_read(struct wn_report_eval *e, const char *path, struct wn_err *err);
/* The same of a document that is read already; messages do not name it. */
WN_CHECKED bool wn_report_eval_of(struct wn_report_eval *e, const json_t *root, struct wn_err *err);
void wn_report_eval_release(struct wn_report_eval *e);
/* The domain of that name, or NULL. */
const struct wn_report_domain *wn_report_eval_find(const struct wn_report_eval *e, const char *domain);

#endif
