/*
 * The archive whose figures the tests of reports know by hand.
 */
#ifndef WN_REPORT_FIXTURE_H
#define WN_REPORT_FIXTURE_H

#include "jobs/calibrate/saliency.h"

/*
 * A dense layer; layer 1 with ten experts, layer 2 with four; two sources. Sums of both sources are
 *   layer 1:  10 0 20 0 30 0 0 0 0 40    layer 2:  5 5 5 5
 * "a" has the 40 and 20 of layer 1 and half of layer 2, "b" the rest.
 */
void report_archive(struct wn_saliency *s, const char *const *labels);
extern const char *const report_labels[2];
/* Keeps 9, 4, 0 and 2, 3: the 20 of layer 1 goes. */
extern const char report_plan[];
/* The same experts: 9 and 0 of layer 1 with their bits, 4 in 2; both of layer 2 with theirs. */
extern const char report_graded_plan[];
/* The experts of report_plan with what a budget by probes predicts: "a" gains by it, "b" pays. */
extern const char report_budget_plan[];

#endif
