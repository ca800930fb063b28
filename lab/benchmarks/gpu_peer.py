"""Time a pretraining step of transformers' ALBERT on a GPU.

    python lab/benchmarks/gpu_peer.py --batch=256 --length=128 --compile

Needs torch and transformers only. Base without dropout, bfloat16 by autocast,
clipping and fused AdamW, every position of the vocabulary's logits, as the
library computes them. Beside it, on the same machine: `lab/train_step.py run`.
"""

import argparse
import json
import time

import torch
import transformers

STEPS, WARM_UP_STEPS = 20, 3
VOCABULARY, LEARNING_RATE = 30000, 1e-4


def main() -> None:
    """Print what was measured as a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--compile", action="store_true")
    settings = parser.parse_args()
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    config = transformers.AlbertConfig(
        vocab_size=VOCABULARY,
        hidden_size=768,
        num_attention_heads=12,
        intermediate_size=3072,
    )  # Without dropout.
    model = transformers.AlbertForPreTraining(config).cuda().train()
    optimizer = torch.optim.AdamW(model.parameters(), LEARNING_RATE, fused=True)
    shape = settings.batch, settings.length
    ids = torch.randint(5, VOCABULARY, shape, device="cuda")
    labels = torch.full_like(ids, -100)
    hidden = settings.length * 3 // 20
    labels[:, :hidden] = ids[:, :hidden]
    order = torch.zeros(settings.batch, dtype=torch.long, device="cuda")
    run = torch.compile(model) if settings.compile else model
    for number in range(WARM_UP_STEPS + STEPS):
        if number == WARM_UP_STEPS:
            torch.cuda.synchronize()
            began = time.perf_counter()
        with torch.autocast("cuda", torch.bfloat16):
            loss = run(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                labels=labels,
                sentence_order_label=order,
            ).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    torch.cuda.synchronize()
    seconds = (time.perf_counter() - began) / STEPS
    measured = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "seconds_per_step": seconds,
        "tokens_per_second": settings.batch * settings.length / seconds,
        "memory_mib": torch.cuda.max_memory_allocated() / 2**20,
    }
    print(json.dumps(measured))


if __name__ == "__main__":
    main()
