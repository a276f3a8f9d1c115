/* See report_fixture.h. */
#include "report_fixture.h"

#include "wn_test.h"

#include <string.h>

static const double total_1[10] = {10, 0, 20, 0, 30, 0, 0, 0, 0, 40};

void report_archive(struct wn_saliency *s, const char *const *labels)
{
    static const uint32_t experts[3] = {0, 10, 4};
    struct wn_err err;

    CHECK_OK(wn_saliency_init(s, 3, experts, 2, 0, 2, labels, &err), &err);
    s->source_tokens[0] = 149;
    s->source_tokens[1] = 1;
    for (uint32_t e = 0; e < 10; e++) {
        uint32_t source = e == 9 || e == 2 ? 0 : 1;

        s->source_saliency[wn_saliency_source_row(s, source, 1) + e] = total_1[e];
        s->source_counts[wn_saliency_source_row(s, source, 1) + e] = total_1[e] > 0;
    }
    for (uint32_t e = 0; e < 4; e++) {
        s->source_saliency[wn_saliency_source_row(s, e / 2, 2) + e] = 5;
        s->source_counts[wn_saliency_source_row(s, e / 2, 2) + e] = 1;
    }
    /* layer 1: the second half has the places of 10 and 20 turned; layer 2: all ties */
    for (uint32_t e = 0; e < 10; e++)
        s->half_saliency[wn_saliency_source_row(s, 0, 1) + e] = total_1[e] / 2;
    memcpy(s->half_saliency + wn_saliency_source_row(s, 1, 1), s->half_saliency + wn_saliency_source_row(s, 0, 1),
           10 * sizeof(double));
    s->half_saliency[wn_saliency_source_row(s, 1, 1) + 0] = 10;
    s->half_saliency[wn_saliency_source_row(s, 1, 1) + 2] = 5;
    for (uint32_t e = 0; e < 4; e++)
        s->half_saliency[wn_saliency_source_row(s, 0, 2) + e] = s->half_saliency[wn_saliency_source_row(s, 1, 2) + e] =
            2.5;
    s->half_tokens[0] = s->half_tokens[1] = 50;
    wn_saliency_add_up(s);
}

const char *const report_labels[2] = {"a", "b"};

const char report_plan[] = "{\"mode\": \"global\", \"top_k\": 2, \"num_experts\": 10, \"min_experts\": 2, \"layers\": "
                           "{\"1\": {\"keep\": [9, 4, 0]}, \"2\": {\"keep\": [2, 3]}}}";

const char report_graded_plan[] =
    "{\"mode\": \"graded\", \"top_k\": 2, \"num_experts\": 10, \"min_experts\": 2, \"layers\": {\"1\": {\"keep\": [9, "
    "0, "
    "4], \"bits\": {\"9\": \"mxfp4\", \"0\": \"mxfp4\", \"4\": \"2bit\"}}, \"2\": {\"keep\": [2, 3]}}}";

const char report_budget_plan[] =
    "{\"mode\": \"global\", \"top_k\": 2, \"num_experts\": 10, \"min_experts\": 2, \"layers\": {\"1\": {\"keep\": [9, "
    "4, "
    "0]}, \"2\": {\"keep\": [2, 3]}}, \"winnow\": {\"criterion\": \"reap\", \"budget\": \"probe\", \"power\": 1.5, "
    "\"predicted\": {\"by\": \"probe\", \"loss\": 0.015, \"sources\": {\"a\": 0.01, \"b\": 0.06}, \"same\": {\"loss\": "
    "0.02, "
    "\"sources\": {\"a\": 0.02, \"b\": 0.05}}}}}";
