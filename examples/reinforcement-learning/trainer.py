"""Learn from what the rollout workers play (REINFORCE)."""

import os
import queue
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import torch
from cartpole import ask, make_policy, pack, unpack

import muster

policy = make_policy()
played: queue.Queue[bytes] = queue.Queue(maxsize=4)
published = b""
"""The step and the policy that rollout workers get."""


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self._answer(published)

    def do_POST(self) -> None:
        size = int(self.headers["Content-Length"])
        data = self.rfile.read(size)
        if len(data) == size:  # Otherwise the rollout worker was killed while it sent them.
            played.put(data)
            self._answer(b"")

    def _answer(self, data: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        pass


def main() -> None:
    global published
    run = muster.init(hparams={"lr": 0.003, "updates": 200, "evaluate_every": 20})
    hparams = run.get_hparams()
    torch.manual_seed(run.seed)
    optimizer = torch.optim.Adam(policy.parameters(), lr=float(hparams["lr"]))
    step = 0
    if (folder := muster.resume_folder()) is not None:
        saved = torch.load(folder / "state.pt", weights_only=True)
        policy.load_state_dict(saved["policy"])
        optimizer.load_state_dict(saved["optimizer"])
        step = saved["step"]
        print(f"goes on from step {step}", flush=True)
    published = pack({"step": step, "policy": policy.state_dict()})
    host, _, port = os.environ["MUSTER_ROLE_ADDRESS"].rpartition(":")
    server = ThreadingHTTPServer((host, int(port)), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    evaluator = os.environ["MUSTER_ROLE_EVALUATOR_ADDRESSES"]

    num_updates = int(hparams["updates"])
    while step < num_updates and not muster.should_stop():
        batch = unpack(played.get())
        loss = learn(batch, optimizer)
        step += 1
        published = pack({"step": step, "policy": policy.state_dict()})
        lengths = batch["lived"].sum(0).float()
        muster.log({"train/loss": loss, "train/return": lengths.mean().item()}, step=step)
        if step % int(hparams["evaluate_every"]) == 0 or step == num_updates:
            value = float(ask(evaluator, "/", published))
            muster.log({"val/return": value}, step=step)
            print(f"step {step}: return {value:.1f}", flush=True)
            with muster.checkpoint(step=step, metrics={"val/return": value}) as folder:
                state = {"policy": policy.state_dict(), "optimizer": optimizer.state_dict()}
                torch.save({**state, "step": step}, folder / "state.pt")
    print("trained", flush=True)


def learn(batch: dict[str, torch.Tensor], optimizer: torch.optim.Optimizer) -> float:
    """Make what led to more steps more likely."""
    lived = batch["lived"].float()
    left = lived.flip(0).cumsum(0).flip(0)  # Steps that each episode still had before it.
    mean = (left * lived).sum() / lived.sum()
    spread = (((left - mean) ** 2 * lived).sum() / lived.sum()).sqrt() + 1e-6
    chosen = policy(batch["states"]).log_softmax(-1).gather(-1, batch["actions"][..., None])
    loss = -(chosen.squeeze(-1) * (left - mean) / spread * lived).sum() / lived.sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


if __name__ == "__main__":
    main()
