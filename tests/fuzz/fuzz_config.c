/* Any bytes as config.json: read to one coherent shape, or refused in a sentence. */
#include "model/config_read.h"
#include "model/mlx.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct wn_config c;
    struct wn_err err = {0};

    if (wn_config_parse_json((const char *)data, n, &c, &err)) {
        assert(c.layers && c.layer_count > 0 && wn_config_check(&c, &err));
        for (uint32_t i = 0; i < c.layer_count; i++)
            assert(c.layers[i].low_count == 0 || c.layers[i].low_count < c.layers[i].expert_count);
        wn_config_release(&c);
        for (int naming = 0; naming < WN_NAMING_COUNT; naming++)
            assert(wn_mlx_agrees((const char *)data, n, (enum wn_naming)naming, &err) || err.msg[0] != '\0');
    } else {
        assert(err.code != WN_OK && err.msg[0] != '\0' && strlen(err.msg) < sizeof(err.msg));
    }
    return 0;
}
