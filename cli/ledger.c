/* See ledger.h. */
#include "ledger.h"

#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define INPUT_BLOCK 512 /* the unit of ru_inblock, whatever the disk's own */
#define DISK_SHARE  10
/* Of code that runs for the first time, and what is small: 0.1 to 0.3 MB were seen. */
#define UNFORESEEN ((uint64_t)1 << 19)

static void read_counters(struct meter *m)
{
    struct timespec t;
    struct rusage r;

    if (clock_gettime(CLOCK_MONOTONIC, &t) == 0)
        m->seconds = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
    if (getrusage(RUSAGE_SELF, &r) == 0) {
        m->faults = (uint64_t)r.ru_majflt;
        m->disk_bytes = (uint64_t)r.ru_inblock * INPUT_BLOCK;
    }
}

void meter_start(struct meter *m)
{
    *m = (struct meter){0};
    read_counters(m);
}

void meter_stop(struct meter *m)
{
    struct meter now = *m;

    read_counters(&now);
    *m = (struct meter){now.seconds - m->seconds, now.faults - m->faults, now.disk_bytes - m->disk_bytes};
}

double meter_rate(const struct meter *m, size_t n)
{
    return m->seconds > 0 ? (double)n / m->seconds : 0;
}

bool meter_disk_bound(const struct meter *m, size_t n, uint64_t token_bytes)
{
    return m->faults > 0 && (double)m->disk_bytes * DISK_SHARE >= (double)n * (double)token_bytes;
}

uint64_t tell_memory(const struct wn_inspection *in, const struct wn_weights *w, const struct wn_config *c,
                     const struct wn_session_options *so, unsigned threads, uint64_t held)
{
    uint64_t weights = in->tensor_bytes - in->class_bytes[WN_CLASS_VISION], all;
    uint64_t tables = held + wn_weights_owned(w) + UNFORESEEN;
    char size[7][32];
    struct wn_session_memory n;

    wn_session_need(c, so, threads, &n);
    all = tables + weights + n.state + n.cache + n.scratch;
    talk("memory: %s at most: %s of weights (mapped: the system may take pages back), %s of tables and turned weights, "
         "%s of the session (state %s, cache of %" PRIu32 " tokens %s, scratch %s)",
         text_size(all, size[0], sizeof size[0]), text_size(weights, size[1], sizeof size[1]),
         text_size(tables, size[2], sizeof size[2]), text_size(n.state + n.cache + n.scratch, size[3], sizeof size[3]),
         text_size(n.state, size[4], sizeof size[4]), so->context, text_size(n.cache, size[5], sizeof size[5]),
         text_size(n.scratch, size[6], sizeof size[6]));
    return all;
}

void ledger_routed(struct ledger *l, const struct wn_session *s)
{
    struct wn_routing prompt = l->answered;

    wn_session_routing(s, &l->routed);
    l->answered = (struct wn_routing){l->routed.tokens - prompt.tokens, l->routed.chosen - prompt.chosen,
                                      l->routed.ghosts - prompt.ghosts, l->routed.lost - prompt.lost};
}

static double share(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

/* What a generated token read in the mean: of the routed experts only those that were no ghosts. */
static uint64_t class_bytes(const struct ledger *l, const struct wn_inspection *in, int c)
{
    uint64_t bytes = in->class_token_bytes[c];
    double saved = share((double)l->answered.ghosts, (double)l->answered.chosen);

    return c == WN_CLASS_ROUTED ? bytes - (uint64_t)(saved * (double)bytes) : bytes;
}

static uint64_t token_bytes(const struct ledger *l, const struct wn_inspection *in)
{
    return in->token_bytes - in->class_token_bytes[WN_CLASS_ROUTED] + class_bytes(l, in, WN_CLASS_ROUTED);
}

/* "routed experts 1.2 MB, attention 340 KB": what a token reads, without what it does not. */
static const char *classes_text(const struct ledger *l, const struct wn_inspection *in, char *buf, size_t size)
{
    char bytes[32];
    size_t at = 0;

    buf[0] = '\0';
    for (int c = 0; c < WN_CLASS_COUNT && at < size; c++)
        if (in->class_token_bytes[c])
            at += (size_t)snprintf(buf + at, size - at, "%s%s %s", at ? ", " : "", wn_class_name((enum wn_class)c),
                                   text_size(class_bytes(l, in, c), bytes, sizeof bytes));
    return buf;
}

static const char *faults_text(const struct meter *m, bool bound, char *buf, size_t size)
{
    char bytes[32];

    if (bound)
        snprintf(buf, size, "waiting for the disk: %" PRIu64 " page faults, %s read from it", m->faults,
                 text_size(m->disk_bytes, bytes, sizeof bytes));
    else if (m->faults)
        snprintf(buf, size, "%" PRIu64 " page fault%s that went to the disk", m->faults, m->faults == 1 ? "" : "s");
    else
        snprintf(buf, size, "no waiting for the disk");
    return buf;
}

void tell_ledger(const struct ledger *l, const struct wn_inspection *in)
{
    double rate = meter_rate(&l->generation, l->tokens);
    uint64_t each = token_bytes(l, in);
    bool bound = meter_disk_bound(&l->generation, l->tokens, each);
    char size[32], peak[32], classes[400], faults[120];

    talk("%zu prompt tokens at %.1f/s, %zu generated at %.1f/s%s; %s; memory %s at its peak", l->prompt_tokens,
         meter_rate(&l->prompt, l->prompt_tokens), l->tokens, rate, l->ended ? ", ended by the model" : "",
         faults_text(&l->generation, bound, faults, sizeof faults), text_size(l->peak, peak, sizeof peak));
    talk("%s read per token at %.2f GB/s: %s", text_size(each, size, sizeof size), rate * (double)each * 1e-9,
         classes_text(l, in, classes, sizeof classes));
    if (l->ghosts != WN_GHOSTS_OFF)
        talk("ghosts (%s): %.1f %% of the router's choices and %.1f %% of its mass; %s a token less read",
             wn_ghosts_name(l->ghosts), 100 * share((double)l->routed.ghosts, (double)l->routed.chosen),
             100 * share(l->routed.lost, (double)l->routed.tokens),
             text_size(in->token_bytes - each, size, sizeof size));
}

static json_t *json_ghosts(const struct ledger *l, const struct wn_inspection *in)
{
    return json_pack("{ss sI sI sf sI}", "mode", wn_ghosts_name(l->ghosts), "chosen", (json_int_t)l->routed.chosen,
                     "ghosts", (json_int_t)l->routed.ghosts, "misroute",
                     share(l->routed.lost, (double)l->routed.tokens), "token_bytes_saved",
                     (json_int_t)(in->token_bytes - token_bytes(l, in)));
}

json_t *json_ledger(json_t *j, const struct ledger *l, const struct wn_inspection *in)
{
    json_t *classes = json_object();

    for (int c = 0; c < WN_CLASS_COUNT; c++)
        if (in->class_token_bytes[c])
            classes =
                json_put(classes, wn_class_name((enum wn_class)c), json_integer((json_int_t)class_bytes(l, in, c)));
    j = json_put(j, "prompt_tokens", json_integer((json_int_t)l->prompt_tokens));
    j = json_put(j, "tokens", json_integer((json_int_t)l->tokens));
    j = json_put(j, "prompt_tokens_per_second", json_real(meter_rate(&l->prompt, l->prompt_tokens)));
    j = json_put(j, "tokens_per_second", json_real(meter_rate(&l->generation, l->tokens)));
    j = json_put(j, "token_bytes", json_integer((json_int_t)token_bytes(l, in)));
    j = json_put(j, "token_bytes_by_class", classes);
    j = json_put(j, "prompt_page_faults", json_integer((json_int_t)l->prompt.faults));
    j = json_put(j, "page_faults", json_integer((json_int_t)l->generation.faults));
    j = json_put(j, "disk_bytes", json_integer((json_int_t)l->generation.disk_bytes));
    j = json_put(j, "disk_bound", json_boolean(meter_disk_bound(&l->generation, l->tokens, token_bytes(l, in))));
    if (l->ghosts != WN_GHOSTS_OFF)
        j = json_put(j, "ghosts", json_ghosts(l, in));
    j = json_put(j, "memory_told", json_integer((json_int_t)l->told));
    return json_put(j, "memory_peak", json_integer((json_int_t)l->peak));
}
