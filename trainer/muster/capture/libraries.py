"""Where the values of each library pass, and what it is called."""

MODULES = {
    "torch.utils.tensorboard.writer": "tensorboard",
    "tensorboardX.writer": "tensorboard",
    "lightning.pytorch.trainer.connectors.logger_connector.logger_connector": "lightning",
    "pytorch_lightning.trainer.connectors.logger_connector.logger_connector": "lightning",
    "transformers.trainer": "transformers",
    "accelerate.accelerator": "accelerate",
    "keras.src.callbacks.callback_list": "keras",
    "fastai.learner": "fastai",
    "xgboost.callback": "xgboost",
    "lightgbm.engine": "lightgbm",
    "sklearn.model_selection._search": "sklearn",
    "wandb.sdk.wandb_run": "wandb",
}
"""Route of each module that an adapter hooks. The adapter is the module of that name in this package,
with a function `hook`."""
LIBRARIES = {
    "tensorboard": "TensorBoard",
    "lightning": "Lightning",
    "transformers": "Hugging Face Transformers",
    "accelerate": "Accelerate",
    "keras": "Keras",
    "fastai": "fastai",
    "xgboost": "XGBoost",
    "lightgbm": "LightGBM",
    "sklearn": "scikit-learn",
    "wandb": "Weights & Biases",
}
"""Name of the library behind each route."""
