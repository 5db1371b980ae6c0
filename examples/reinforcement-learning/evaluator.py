"""Answer how well a policy plays, until asked to stop."""

import os
from http.server import BaseHTTPRequestHandler, HTTPServer

import torch
from cartpole import make_policy, play, unpack


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        policy = make_policy()
        newest = unpack(self.rfile.read(int(self.headers["Content-Length"])))
        policy.load_state_dict(newest["policy"])
        batch = play(policy, 32, torch.Generator().manual_seed(0), greedy=True)
        answer = f"{batch['lived'].sum(0).float().mean().item()}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        pass


if __name__ == "__main__":
    host, _, port = os.environ["MUSTER_ROLE_ADDRESS"].rpartition(":")
    print(f"evaluates at {host}:{port}", flush=True)
    HTTPServer((host, int(port)), Handler).serve_forever()
