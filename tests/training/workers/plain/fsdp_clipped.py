"""A script that says nothing of Muster: FSDP2 in mixed precision that clips gradients and gathers its weights."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

dist.init_process_group("gloo")
torch.manual_seed(0)
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
model = nn.Sequential(
    *[nn.Sequential(nn.Linear(32, 48), nn.GELU(), nn.Linear(48, 32)) for _ in range(3)]
)
for block in model:
    fully_shard(block, mp_policy=policy, reshard_after_forward=False)
fully_shard(model, mp_policy=policy)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(5):
    model(torch.randn(4, 32)).float().square().mean().backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
weights = get_model_state_dict(
    model, options=StateDictOptions(full_state_dict=True, cpu_offload=True)
)
assert dist.get_rank() != 0 or len(weights) == 12
dist.barrier()
dist.destroy_process_group()
