/** Starting points that run as they are: the built-in trainer needs no code of the user's. */

export const TEMPLATES = {
  ddp: `# Data-parallel training on two workers with the built-in trainer: no code needed.
name: digits-ddp
project: default
trainer:
  model: cnn
  data: digits
  epochs: 10
  batch_size: 32
resources:
  slots: 2
  slot_type: cpu
strategy:
  kind: ddp
checkpoints:
  every: {epochs: 2}
`,
  asha: `# A search by successive halving: 16 trials start, the better ones continue.
name: digits-asha
project: default
trainer:
  model: mlp
  data: digits
hyperparameters:
  lr: {log: [1.0e-4, 1.0e-1]}
  width: {int: [16, 128], step: 16}
  optimizer: {choice: [adamw, sgd]}
search:
  method: asha
  metric: val/loss
  goal: min
  trials: 16
  max_length: {epochs: 9}
  divisor: 3
  rungs: 3
  concurrent: 2
  seed: 7
resources:
  slots: 1
`,
  plain: `# One worker, the shortest document that trains something.
name: digits
trainer:
  model: mlp
  data: digits
  epochs: 5
strategy:
  kind: single
`,
  script: `# Your own script. Muster starts it with torchrun, one process per slot.
# From the command line, code: {path: .} uploads the folder; here name one that every node has.
name: my-training
entrypoint: train.py --epochs 3
code:
  installed: /common/my-project
resources:
  slots: 2
  slot_type: cpu
restarts:
  user: 1
`,
} as const;

export type TemplateName = keyof typeof TEMPLATES;

export const isTemplate = (name: string | undefined): name is TemplateName => name !== undefined && name in TEMPLATES;
