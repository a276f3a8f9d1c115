/* Who named the tensors. A container alone does not tell: HF and MLX folders are both safetensors. */
#ifndef WN_MODEL_NAMING_H
#define WN_MODEL_NAMING_H

enum wn_naming { WN_NAMING_GGUF, WN_NAMING_HF, WN_NAMING_MLX, WN_NAMING_COUNT };

#endif
