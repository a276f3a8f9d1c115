/* A program of somebody else's: opens the model of its argument and says what it found. */
#include <stdio.h>
#include <winnow/model.h>
#include <winnow/version.h>

int main(int argc, char **argv)
{
    struct wn_err err;
    struct wn_model *m = argc > 1 ? wn_model_open(argv[1], &err) : NULL;

    if (!m)
        return 1;
    printf("winnow %s: %u layers of %s\n", WINNOW_VERSION, (unsigned)wn_model_config(m)->layer_count,
           wn_model_config(m)->architecture);
    wn_model_close(m);
    return 0;
}
