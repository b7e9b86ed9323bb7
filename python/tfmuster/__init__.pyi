"""What type checkers and editors know of the package, whose names are loaded when they are first used."""

from typing import Final

from .cluster.check import Report as Report
from .cluster.check import check_cluster as check_cluster
from .cluster.resolvers import tf_config_from_barrier as tf_config_from_barrier
from .cluster.spec import Cluster as Cluster
from .cluster.spec import Task as Task
from .cluster.tf_config import current_task as current_task
from .cluster.tf_config import parse_tf_config as parse_tf_config
from .cluster.tf_config import tf_config_json as tf_config_json
from .cluster.tf_config import use_tf_config as use_tf_config
from .diagnostics.doctor import doctor as doctor
from .diagnostics.selftest import selftest as selftest
from .digits.datasets import Digits as Digits
from .digits.datasets import mnist as mnist
from .digits.datasets import synthetic as synthetic
from .digits.models import mnist_model as mnist_model
from .digits.reporting import TrainingResult as TrainingResult
from .digits.train import train_mnist as train_mnist
from .errors import CheckpointError as CheckpointError
from .errors import ClusterError as ClusterError
from .errors import DataError as DataError
from .errors import DependencyError as DependencyError
from .errors import LaunchError as LaunchError
from .errors import ModelError as ModelError
from .errors import RendezvousError as RendezvousError
from .errors import StrategyError as StrategyError
from .errors import TfmusterError as TfmusterError
from .errors import TfmusterWarning as TfmusterWarning
from .errors import WorkerError as WorkerError
from .keras_compat.data.worker_data import own_rows as own_rows
from .launcher import launch as launch
from .launcher.warm import workers as workers
from .models.saving import model_from_bytes as model_from_bytes
from .models.saving import model_to_bytes as model_to_bytes
from .models.saving import save_model as save_model
from .options.places import Local as Local
from .options.places import Lsf as Lsf
from .options.places import Mpi as Mpi
from .options.places import Pbs as Pbs
from .options.places import Sge as Sge
from .options.places import Slurm as Slurm
from .options.places import Spark as Spark
from .options.places import Ssh as Ssh
from .options.table import Control as Control
from .strategies.by_name import strategy as strategy
from .strategies.by_name import strategy_table as strategy_table
from .strategies.parameter_server import ps_fit as ps_fit
from .tracking.run import Run as Run
from .tracking.show.comparison import compare_runs as compare_runs
from .tracking.show.listing import find_run as find_run
from .tracking.show.listing import runs as runs
from .tracking.show.report import write_report as write_report
from .tracking.show.tensorboard import tensorboard_callback as tensorboard_callback
from .training.batches import batches as batches
from .training.checkpoints import checkpoint_callback as checkpoint_callback
from .training.custom_loop import distributed_step as distributed_step
from .training.evaluating import evaluate_checkpoints as evaluate_checkpoints
from .training.file_batches import file_batches as file_batches
from .training.learning_rates import scaled_learning_rate as scaled_learning_rate
from .training.readers.image_folders import image_rows as image_rows
from .training.readers.tables import csv_rows as csv_rows
from .training.readers.tables import parquet_rows as parquet_rows
from .training.readers.tfrecord_files import tfrecord_rows as tfrecord_rows
from .training.values import all_rows as all_rows
from .training.values import broadcast as broadcast
from .training.values import chief_first as chief_first
from .training.values import gather as gather

__version__: Final[str]
__all__: list[str]
MODULE_OF: Final[dict[str, str]]

def _watch_worker(name: str) -> None: ...
