#!/usr/bin/env python3
"""A folder of Kimi-K3's layout and layer sizes with few layers and experts and random weights, for measuring speed.

  bench/k3_slice.py OUT [--layers 4] [--experts 28] [--top-k 16] [--mini data/models/k3-mini]

A layer costs a token what one of the whole model costs it: every matrix has its shape and type (experts MXFP4, the rest
BF16). Layers are KDA but for every fourth, which is MLA; none is dense, as the whole model's one of 93 hardly counts.
Vocabulary and tokenizer are k3-mini's, so the head has about its share of a slice. The text is noise; all values are
finite. About 1.7 GB a layer.
"""
import argparse
import json
import os
import random
import shutil
import struct

HIDDEN, HEADS, DIM, LATENT, INNER, SHARED = 7168, 96, 128, 3584, 3072, 2
Q_RANK, KV_RANK, NOPE, ROPE, VALUE = 1536, 512, 128, 64, 128
WIDE = HEADS * DIM
POOL = 32 << 20  # random bytes that all tensors are cut from


class Weights:
    """Bytes of tensors. Where they repeat does not matter to whoever reads them once."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.codes = self.rng.randbytes(POOL)
        scales = self.codes.translate(bytes(119 + b % 2 for b in range(256)))
        small = bytearray(self.rng.randbytes(POOL))  # BF16 of 2^-7 to 2^-5 in size
        small[1::2] = small[1::2].translate(bytes(0x3C | b & 0x80 for b in range(256)))
        self.pools = {"U8": self.codes, "scale": scales, "BF16": bytes(small)}

    def write(self, f, kind, count):
        pool, left = self.pools[kind], count
        while left:
            at = self.rng.randrange(0, POOL // 2, 2)
            part = min(left, POOL // 2)
            f.write(memoryview(pool)[at : at + part])
            left -= part


def constant(dtype, values):
    """(dtype, shape) and what to write, of a vector or of rows of one."""
    return dtype, b"".join(struct.pack("<f", v)[2 if dtype == "BF16" else 0 :] for v in values)


def norm(n):
    return [n], *constant("BF16", [1.0] * n)


def matrix(rows, cols):
    return [rows, cols], "BF16", None


def residual(prefix, name):
    return {f"{prefix}{name}_res_norm.weight": norm(HIDDEN), f"{prefix}{name}_res_proj.weight": matrix(1, HIDDEN)}


def kda(p):
    t = {p + n + "_proj.weight": matrix(WIDE, HIDDEN) for n in "qkvg"}
    for n in "qkv":
        t[p + n + "_conv1d.weight"] = [WIDE, 1, 4], *constant("F32", [0.1, 0.2, 0.3, 0.4] * WIDE)
    t[p + "A_log"] = [DIM], *constant("F32", [i / HEADS for i in range(HEADS)] + [0.0] * (DIM - HEADS))
    t[p + "dt_bias"] = [WIDE], *constant("F32", [0.5] * WIDE)
    t[p + "o_norm.weight"] = [DIM], *constant("F32", [1.0] * DIM)
    t[p + "f_a_proj.weight"], t[p + "f_b_proj.weight"] = matrix(DIM, HIDDEN), matrix(WIDE, DIM)
    t[p + "b_proj.weight"], t[p + "o_proj.weight"] = matrix(HEADS, HIDDEN), matrix(HIDDEN, WIDE)
    return t


def mla(p):
    return {
        p + "q_a_proj.weight": matrix(Q_RANK, HIDDEN),
        p + "q_a_layernorm.weight": norm(Q_RANK),
        p + "q_b_proj.weight": matrix(HEADS * (NOPE + ROPE), Q_RANK),
        p + "kv_a_proj_with_mqa.weight": matrix(KV_RANK + ROPE, HIDDEN),
        p + "kv_a_layernorm.weight": norm(KV_RANK),
        p + "kv_b_proj.weight": matrix(HEADS * (NOPE + VALUE), KV_RANK),
        p + "g_proj.weight": matrix(HEADS * VALUE, HIDDEN),
        p + "o_proj.weight": matrix(HIDDEN, HEADS * VALUE),
    }


def mixture(p, experts):
    t = {
        p + "gate.weight": matrix(experts, HIDDEN),
        p + "gate.e_score_correction_bias": ([experts], *constant("F32", [0.0] * experts)),
        p + "routed_expert_down_proj.weight": matrix(LATENT, HIDDEN),
        p + "routed_expert_norm.weight": norm(LATENT),
        p + "routed_expert_up_proj.weight": matrix(HIDDEN, LATENT),
        p + "shared_experts.gate_proj.weight": matrix(SHARED * INNER, HIDDEN),
        p + "shared_experts.up_proj.weight": matrix(SHARED * INNER, HIDDEN),
        p + "shared_experts.down_proj.weight": matrix(HIDDEN, SHARED * INNER),
    }
    for e in range(experts):
        for name, rows, cols in ("w1", INNER, LATENT), ("w3", INNER, LATENT), ("w2", LATENT, INNER):
            t[f"{p}experts.{e}.{name}.weight_packed"] = [rows, cols // 2], "U8", None
            t[f"{p}experts.{e}.{name}.weight_scale"] = [rows, cols // 32], "U8", "scale"
    return t


def layer(i, experts):
    p = f"language_model.model.layers.{i}."
    t = {p + "input_layernorm.weight": norm(HIDDEN), p + "post_attention_layernorm.weight": norm(HIDDEN)}
    t |= residual(p, "self_attention") | residual(p, "mlp")
    t |= mla(p + "self_attn.") if i % 4 == 3 else kda(p + "self_attn.")
    return t | mixture(p + "block_sparse_moe.", experts)


def ends(vocab):
    p = "language_model.model."
    t = {"language_model.lm_head.weight": matrix(vocab, HIDDEN), p + "embed_tokens.weight": matrix(vocab, HIDDEN)}
    return t | {p + "norm.weight": norm(HIDDEN)} | residual(p, "output_attn")


def shard_write(path, tensors, weights):
    """Writes a safetensors file and returns the bytes of its tensors."""
    header, at = {}, 0
    for name, (shape, dtype, _) in tensors.items():
        size = {"F32": 4, "BF16": 2, "U8": 1}[dtype]
        for n in shape:
            size *= n
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for name, (_, dtype, data) in tensors.items():
            begin, end = header[name]["data_offsets"]
            if isinstance(data, bytes):
                f.write(data)
            else:
                weights.write(f, data or dtype, end - begin)
    return at


def config_of(mini, args):
    with open(os.path.join(mini, "config.json"), encoding="utf-8") as f:
        config = json.load(f)
    config.pop("vision_config", None)
    config["text_config"] |= {
        "hidden_size": HIDDEN, "num_hidden_layers": args.layers, "first_k_dense_replace": 0, "intermediate_size": 33792,
        "moe_intermediate_size": INNER, "routed_expert_hidden_size": LATENT, "num_shared_experts": SHARED,
        "num_experts": args.experts, "num_experts_per_token": args.top_k, "attn_res_block_size": 2,
        "num_attention_heads": HEADS, "num_key_value_heads": HEADS, "q_lora_rank": Q_RANK, "kv_lora_rank": KV_RANK,
        "qk_nope_head_dim": NOPE, "qk_rope_head_dim": ROPE, "v_head_dim": VALUE,
    }
    config["text_config"]["linear_attn_config"] |= {
        "num_heads": HEADS, "head_dim": DIM,
        "full_attn_layers": [i + 1 for i in range(args.layers) if i % 4 == 3],
        "kda_layers": [i + 1 for i in range(args.layers) if i % 4 != 3],
    }
    return config


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--experts", type=int, default=28)
    parser.add_argument("--top-k", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mini", default="data/models/k3-mini", help="whose vocabulary and settings are taken")
    args = parser.parse_args()
    config, weights, where, total = config_of(args.mini, args), Weights(args.seed), {}, 0
    os.makedirs(args.out)
    shards = [layer(i, args.experts) for i in range(args.layers)] + [ends(config["text_config"]["vocab_size"])]
    for i, tensors in enumerate(shards):
        name = f"model-{i + 1:05d}-of-{len(shards):06d}.safetensors"
        total += shard_write(os.path.join(args.out, name), tensors, weights)
        where |= {tensor: name for tensor in tensors}
    with open(os.path.join(args.out, "model.safetensors.index.json"), "w", encoding="utf-8") as f:
        json.dump({"metadata": {"total_size": total}, "weight_map": where}, f)
    with open(os.path.join(args.out, "config.json"), "w", encoding="utf-8") as f:
        json.dump(config, f, indent=1)
    for name in "generation_config.json", "tiktoken.model", "tokenizer_config.json":
        shutil.copy(os.path.join(args.mini, name), args.out)


if __name__ == "__main__":
    main()
