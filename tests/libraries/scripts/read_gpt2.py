"""Export a gpt as a Hugging Face folder and use it with transformers. Run in an empty folder."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import torch
import transformers

from muster.document.model_config import ModelConfig
from muster.document.train_config import TrainConfig
from muster.inference import gpt2
from muster.inference.comparing import Tolerance, compare, recorded_inputs
from muster.inference.loading import LoadedModel
from muster.training import models

TEXT = "To be, or not: é 漢\n\t🙂"

config = TrainConfig(
    model="gpt", data="shakespeare", width=64, depth=3, heads=4, context=48, dropout=0.1
)
described = ModelConfig.of(config)
module = models.build(config, inputs=(config.context,), classes=256).eval()
with torch.no_grad():
    for parameter in module.parameters():
        parameter.add_(0.05 * torch.randn_like(parameter))
model = LoadedModel(module=module, config=described, inputs=(config.context,), classes=256)
folder = Path("hf")
folder.mkdir()
gpt2.write(model, folder)

predict, by = gpt2.reload(folder)
assert by == f"transformers {transformers.__version__}"
found = compare(module, predict, recorded_inputs(model), Tolerance(atol=1e-5, rtol=1e-5))
assert (found.verdict, found.agreement) in (("equal", 1.0), ("within", 1.0)), found

loaded = transformers.AutoModelForCausalLM.from_pretrained(folder, local_files_only=True).eval()
assert isinstance(loaded, transformers.GPT2LMHeadModel)
assert loaded.lm_head.weight.data_ptr() != loaded.transformer.wte.weight.data_ptr()
tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
tokens = tokenizer(TEXT)["input_ids"]
assert tokens == list(TEXT.encode()), tokens
assert tokenizer.decode(tokens) == TEXT
begun = torch.tensor([tokens[:8]])
generated = loaded.generate(
    begun, attention_mask=torch.ones_like(begun), max_new_tokens=32, do_sample=False, pad_token_id=0
)
expected = begun
for _ in range(32):
    expected = torch.cat([expected, module(expected)[:, -1].argmax(-1, keepdim=True)], 1)
assert torch.equal(generated, expected)
print(dataclasses.asdict(found))
