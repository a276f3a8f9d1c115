/*
 * winnow inspect: what a model is made of, what a token reads, what a context takes.
 */
#include "cli.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <winnow/machine.h>
#include <winnow/model.h>

#define HERE "here"
static struct {
    char *bandwidth;
    int context;
} o = {.context = OPT_UNSET};

static double bandwidth; /* bytes/s; 0: not asked for */

static const struct poptOption table[] = {
    {"bandwidth", 'b', POPT_ARG_STRING, &o.bandwidth, 0, "memory bandwidth to reckon tokens/s with ('here': measured)",
     "GB/S"},
    {"ctx", 'c', POPT_ARG_INT, &o.context, 0, "tokens of context to reckon memory for", "N"},
    POPT_TABLEEND};

static double tokens_per_second(const struct wn_inspection *in)
{
    return in->token_bytes ? bandwidth / (double)in->token_bytes : 0;
}

static uint64_t context_bytes(const struct wn_inspection *in)
{
    return in->state_bytes + in->kv_bytes_per_token * (uint64_t)o.context;
}

/* Graded builds: experts of all layers that lie in a bank of fewer bits. */
static uint32_t low_experts(const struct wn_config *c)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->layer_count; i++)
        n += c->layers[i].low_count;
    return n;
}

static json_t *json_shape(const struct wn_config *c)
{
    uint32_t moe = 0, kda = 0;

    for (uint32_t i = 0; i < c->layer_count; i++) {
        moe += c->layers[i].moe;
        kda += c->layers[i].attention == WN_ATTENTION_KDA;
    }
    return json_pack("{sI sI sI sI sI sI sI sI sI sI sI}", "layers", (json_int_t)c->layer_count, "moe_layers",
                     (json_int_t)moe, "kda_layers", (json_int_t)kda, "mla_layers", (json_int_t)(c->layer_count - kda),
                     "hidden_size", (json_int_t)c->hidden_size, "vocab_size", (json_int_t)c->vocab_size, "experts",
                     (json_int_t)c->expert_count, "experts_per_token", (json_int_t)c->experts_per_token,
                     "shared_experts", (json_int_t)c->shared_experts, "context_length", (json_int_t)c->context_length,
                     "low_bank_experts", (json_int_t)low_experts(c));
}

static json_t *to_json(const char *path, const struct wn_inspection *in)
{
    json_t *classes = json_object(), *types = json_array();
    json_t *j = json_pack("{so so so ss sb sI sI sI sI sI}", "model", json_text(path), "container",
                          json_text(in->container), "architecture", json_text(in->architecture), "fingerprint",
                          in->fingerprint, "known", in->known, "files", (json_int_t)in->files, "tensors",
                          (json_int_t)in->tensors, "file_bytes", (json_int_t)in->file_bytes, "tensor_bytes",
                          (json_int_t)in->tensor_bytes, "header_bytes", (json_int_t)in->header_bytes);

    for (int c = 0; c < WN_CLASS_COUNT; c++)
        classes =
            json_put(classes, wn_class_name((enum wn_class)c),
                     json_pack("{sI sI sI}", "tensors", (json_int_t)in->class_tensors[c], "bytes",
                               (json_int_t)in->class_bytes[c], "token_bytes", (json_int_t)in->class_token_bytes[c]));
    for (size_t i = 0; i < in->type_count; i++)
        types = json_add(types, json_pack("{so sI sI}", "type", json_text(in->types[i].type), "tensors",
                                          (json_int_t)in->types[i].tensors, "bytes", (json_int_t)in->types[i].bytes));
    j = json_put(j, "classes", classes);
    j = json_put(j, "types", types);
    if (!in->known)
        return json_put(j, "why_unknown", json_text(in->why_unknown));
    j = json_put(j, "shape", json_shape(in->config));
    j = json_put(j, "token_bytes", json_integer((json_int_t)in->token_bytes));
    j = json_put(j, "expert_bytes", json_integer((json_int_t)in->expert_bytes));
    j = json_put(j, "state_bytes", json_integer((json_int_t)in->state_bytes));
    if (in->ghosts)
        j = json_put(j, "ghosts",
                     json_pack("{sI sb sI}", "count", (json_int_t)in->ghosts, "means", in->ghost_mean_bytes > 0,
                               "bytes", (json_int_t)in->ghost_bytes));
    if (*in->ghost_trouble)
        j = json_put(j, "ghost_trouble", json_text(in->ghost_trouble));
    j = json_put(j, "kv_bytes_per_token", json_integer((json_int_t)in->kv_bytes_per_token));
    if (bandwidth > 0) {
        j = json_put(j, "bandwidth", json_real(bandwidth));
        j = json_put(j, "tokens_per_second", json_real(tokens_per_second(in)));
    }
    if (o.context > 0)
        j = json_put(j, "context_bytes", json_integer((json_int_t)context_bytes(in)));
    return j;
}

static void print_bytes(const char *what, uint64_t bytes)
{
    char size[32], count[40];

    say("%-18s %10s  %24s bytes\n", what, text_size(bytes, size, sizeof size), text_count(bytes, count, sizeof count));
}

static void print_shape(const struct wn_config *c)
{
    uint32_t moe = 0, kda = 0, least = UINT32_MAX, most = 0;

    for (uint32_t i = 0; i < c->layer_count; i++) {
        const struct wn_layer_config *l = &c->layers[i];

        kda += l->attention == WN_ATTENTION_KDA;
        moe += l->moe;
        if (l->moe && l->expert_count < least)
            least = l->expert_count;
        if (l->moe && l->expert_count > most)
            most = l->expert_count;
    }
    say("layers             %" PRIu32 ": %" PRIu32 " KDA, %" PRIu32 " MLA; %" PRIu32 " MoE, %" PRIu32 " dense\n",
        c->layer_count, kda, c->layer_count - kda, moe, c->layer_count - moe);
    if (moe && least == most)
        say("experts            %" PRIu32 " in each MoE layer, %" PRIu32 " used per token, %" PRIu32 " shared\n", most,
            c->experts_per_token, c->shared_experts);
    else if (moe)
        say("experts            %" PRIu32 " to %" PRIu32 " per MoE layer, %" PRIu32 " used per token, %" PRIu32
            " shared\n",
            least, most, c->experts_per_token, c->shared_experts);
    if (low_experts(c))
        say("low-bit bank       %" PRIu32 " experts of all MoE layers\n", low_experts(c));
    say("hidden / latent    %" PRIu32 " / %" PRIu32 "\n", c->hidden_size,
        c->latent_size ? c->latent_size : c->hidden_size);
    say("vocabulary         %" PRIu32 "\n", c->vocab_size);
    say("context            %" PRIu32 " tokens\n", c->context_length);
}

static void print_classes(const struct wn_inspection *in)
{
    char bytes[40], size[32], token[32];

    say("\n%-18s %8s %24s %10s %12s\n", "class", "tensors", "bytes", "", "per token");
    for (int c = 0; c < WN_CLASS_COUNT; c++)
        if (in->class_tensors[c])
            say("%-18s %8" PRIu64 " %24s %10s %12s\n", wn_class_name((enum wn_class)c), in->class_tensors[c],
                text_count(in->class_bytes[c], bytes, sizeof bytes), text_size(in->class_bytes[c], size, sizeof size),
                in->known ? text_size(in->class_token_bytes[c], token, sizeof token) : "");
    say("\n%-18s %8s %24s\n", "type", "tensors", "bytes");
    for (size_t i = 0; i < in->type_count; i++)
        say("%-18s %8" PRIu64 " %24s\n", in->types[i].type, in->types[i].tensors,
            text_count(in->types[i].bytes, bytes, sizeof bytes));
}

static void print_text(const char *path, const struct wn_inspection *in)
{
    char count[40], size[32];

    say("model              %s\n", path);
    say("container          %s, %" PRIu64 " file%s\n", in->container, in->files, in->files == 1 ? "" : "s");
    say("architecture       %s%s\n", in->architecture, in->known ? "" : " (not one that winnow computes)");
    if (!in->known)
        say("not computed       %s\n", in->why_unknown);
    say("fingerprint        %s\n", in->fingerprint);
    if (in->known)
        print_shape(in->config);
    if (in->ghosts)
        say("ghosts             %" PRIu64 " in all MoE layers, %s; %s of files\n", in->ghosts,
            in->ghost_mean_bytes ? "with their mean outputs" : "which give nothing",
            text_size(in->ghost_bytes, size, sizeof size));
    if (*in->ghost_trouble)
        say("not sound          %s\n", in->ghost_trouble);
    say("tensors            %s\n", text_count(in->tensors, count, sizeof count));
    print_bytes("files", in->file_bytes);
    print_bytes("tensor data", in->tensor_bytes);
    print_bytes("headers", in->header_bytes);
    print_classes(in);
    if (!in->known)
        return;
    putchar('\n');
    print_bytes(in->ghosts ? "read per token <=" : "read per token", in->token_bytes);
    if (in->expert_bytes)
        print_bytes("one expert", in->expert_bytes);
    print_bytes("recurrent state", in->state_bytes);
    print_bytes("latent cache/token", in->kv_bytes_per_token);
    if (o.context > 0) {
        say("context of %d:\n", o.context);
        print_bytes("  state and cache", context_bytes(in));
    }
    if (bandwidth > 0)
        say("at %.1f GB/s%s: at most %.2f tokens/s\n", bandwidth * 1e-9,
            strcmp(o.bandwidth, HERE) == 0 ? " (measured here)" : "", tokens_per_second(in));
}

/* --bandwidth is a number of GB/s, or "here". */
static bool get_bandwidth(const struct command *self, int *code)
{
    struct wn_err err;
    char *end;

    if (!o.bandwidth)
        return true;
    if (strcmp(o.bandwidth, HERE) == 0) {
        struct wn_pool *pool = make_pool(&err);
        bool ok = pool && wn_measure_bandwidth(pool, &bandwidth, &err);

        wn_pool_free(pool);
        if (!ok)
            *code = talk_failed(&err);
        return ok;
    }
    bandwidth = strtod(o.bandwidth, &end) * 1e9;
    if (end != o.bandwidth && *end == '\0' && bandwidth > 0 && bandwidth < 1e18)
        return true;
    *code = opt_wrong(self, "--bandwidth %s: GB/s like 819, or 'here'", o.bandwidth);
    return false;
}

static int run(const struct command *self, int argc, const char **argv)
{
    const char **args, *path;
    struct wn_inspection in;
    struct wn_model *m;
    struct wn_err err;
    int n, code;
    bool ok;

    if (!opt_parse(self, table, argc, argv, 0, 1, &args, &n, &code))
        return code;
    if (o.context != OPT_UNSET && o.context < 1)
        return opt_wrong(self, "--ctx %d: at least 1 is wanted", o.context);
    if (!get_bandwidth(self, &code))
        return code;
    path = model_path(args[0]);
    m = wn_model_open(path, &err);
    if (m)
        tell_warning(m);
    ok = m ? wn_model_inspect(m, &in, &err) : wn_inspect(path, &in, &err); /* one that winnow does not compute */
    wn_model_close(m);
    if (!ok)
        return talk_failed(&err);
    if (common.json) {
        code = print_json(to_json(path, &in));
    } else {
        print_text(path, &in);
        code = finish_output();
    }
    wn_inspection_release(&in);
    return code;
}

const struct command cmd_inspect = {"inspect", "[MODEL] [OPTIONS]",
                                    "show architecture, tensors, bytes by class and bytes read per token", run,
                                    "Kimi-K3 --bandwidth 819 --ctx 131072"};
