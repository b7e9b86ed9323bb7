"""The register of seams: each name of Keras and TensorFlow that is not public and that tfmuster relies on.

Nothing but this file names ``keras.src``, ``tensorflow.python``, or an attribute of theirs with an
underscore. A row says where a name is, what it takes, and why it is needed (:mod:`tfmuster.system.register`).
Rows are in the order of what they belong to: the runtime and its strategies, models, losses, sums over the
workers, metrics, random numbers, data, files.
"""

from __future__ import annotations

from ..system.register import Private, Seam

# Strategies, servers and the runtime.

CONTEXT = Seam("tensorflow.python.eager.context:context", "the runtime of this process, started or not")
EXECUTING_EAGERLY = Seam("tensorflow.python.eager.context:executing_eagerly", "whether a function is traced")
EAGER_MODE = Seam("tensorflow.python.eager.context:eager_mode", "to run hooks at the start of the runtime")
START = Seam(
    "tensorflow.python.eager.context:Context.ensure_initialized",
    "the strategy is made, and lines are noted, when the runtime starts",
)
STARTED = Private("tensorflow.python.eager.context:Context._initialized", "whether it has started")
HANDLE = Private(
    "tensorflow.python.eager.context:Context._context_handle", "whether it has started its server"
)
SERVER = Private(
    "tensorflow.python.eager.context:Context._collective_ops_server_def",
    "the cluster that this process has joined, and its place there",
)
ENABLE_COLLECTIVES = Seam(
    "tensorflow.python.eager.context:Context.enable_collective_ops",
    "all strategies of a process use the server of the first one",
    takes=("server_def",),
)
ADD_C_FUNCTION = Seam(
    "tensorflow.python.eager.context:Context.add_c_function",
    "servers are reached before calls that hold Python's lock",
)
ADD_FUNCTION_DEF = Seam("tensorflow.python.eager.context:Context.add_function_def", ADD_C_FUNCTION.why)
REMOVE_FUNCTION = Seam("tensorflow.python.eager.context:Context.remove_function", ADD_C_FUNCTION.why)
C_ENABLE_COLLECTIVES = Seam(
    "tensorflow.python.pywrap_tfe:TFE_EnableCollectiveOps",
    "the server starts without holding Python's lock",
    essential=False,
)
TAPE_STOPPED = Seam("tensorflow.python.pywrap_tfe:TFE_Py_TapeSetIsStopped", "whether a tape is around a step")
TAPE_EMPTY = Seam("tensorflow.python.pywrap_tfe:TFE_Py_TapeSetIsEmpty", TAPE_STOPPED.why)
ERROR_OF_CODE = Seam(
    "tensorflow.python.framework.errors_impl:exception_type_from_error_code",
    "the error of a server that could not start",
)

COLLECTIVE_STRATEGY = Seam(
    "tensorflow.python.distribute.collective_all_reduce_strategy:CollectiveAllReduceStrategy",
    "the strategy that programs make, and the default one of a program that makes none",
)
COLLECTIVE_INIT = Seam(f"{COLLECTIVE_STRATEGY}.__init__", "workers meet, and share a seed, when one is made")
COLLECTIVE_V1_INIT = Seam(
    "tensorflow.python.distribute.collective_all_reduce_strategy:CollectiveAllReduceStrategyV1.__init__",
    COLLECTIVE_INIT.why,
)
COLLECTIVE_NEW = Seam(f"{COLLECTIVE_STRATEGY}.__new__", "a program with a default strategy has no other")
COLLECTIVE = Seam(
    "tensorflow.python.distribute.collective_all_reduce_strategy:CollectiveAllReduceExtended",
    "tells a strategy of several workers, of TensorFlow 2 and of compat.v1",
)
IN_MULTI_WORKER_MODE = Private(f"{COLLECTIVE}._in_multi_worker_mode", "whether it has a cluster")
INITIALIZE_MULTI_WORKER = Private(
    f"{COLLECTIVE}._initialize_multi_worker",
    "the workers meet when the cluster is known, before a port is bound",
)
COLLECTIVE_KEYS = Private(
    f"{COLLECTIVE}._collective_keys", "strategies of a process share the keys of collectives"
)
CREATE_VARIABLE = Private(
    f"{COLLECTIVE}._create_variable", "a weight that differs between the workers is named"
)
CROSS_DEVICE_OPS = Private(f"{COLLECTIVE}._cross_device_ops", "its launchers of collectives")
HOST_CROSS_DEVICE_OPS = Private(f"{COLLECTIVE}._host_cross_device_ops", CROSS_DEVICE_OPS.why)
MAKE_INPUT_CONTEXT = Private(
    f"{COLLECTIVE}._make_input_context", "the number of this worker, and how many there are"
)
USE_MERGE_CALL = Private(f"{COLLECTIVE}._use_merge_call", "sums of gradients may be in a branch or a loop")
CENTRAL_INIT = Seam(
    "tensorflow.python.distribute.central_storage_strategy:CentralStorageStrategy.__init__",
    "this process joins its cluster before a strategy of its own devices starts TensorFlow",
)
CENTRAL_V1_INIT = Seam(
    "tensorflow.python.distribute.central_storage_strategy:CentralStorageStrategyV1.__init__",
    CENTRAL_INIT.why,
)
MIRRORED_INIT = Seam(
    "tensorflow.python.distribute.mirrored_strategy:MirroredStrategy.__init__", CENTRAL_INIT.why
)
MIRRORED_V1_INIT = Seam(
    "tensorflow.python.distribute.mirrored_strategy:MirroredStrategyV1.__init__", CENTRAL_INIT.why
)
LOCAL_DEVICES = Seam(
    "tensorflow.python.distribute.mirrored_strategy:all_local_devices",
    "in a cluster it lists the devices of all workers, which ends the process by SIGSEGV",
    takes=("num_gpus",),
)
CALL_REPLICAS = Private(
    "tensorflow.python.distribute.mirrored_run:_call_for_each_replica",
    "one replica runs in the caller's thread, where R's functions can be called",
    takes=("fn", "args", "kwargs"),
)
REPLICA_CONTEXT = Seam(
    "tensorflow.python.distribute.distribute_lib:ReplicaContext", "the context of a replica without a thread"
)
REPLICA_NUMBER = Private(
    "tensorflow.python.distribute.distribute_lib:ReplicaContextBase._replica_id",
    "16-bit gradients use the launcher of this replica",
)
MERGE_CALL = Private(f"{REPLICA_CONTEXT}._merge_call", REPLICA_CONTEXT.why)
REPLICA_ID = Private(f"{COLLECTIVE}._get_replica_id_in_sync_group", REPLICA_CONTEXT.why)
SELECT_REPLICA = Seam("tensorflow.python.distribute.distribute_utils:select_replica", REPLICA_CONTEXT.why)
REGROUP = Seam("tensorflow.python.distribute.distribute_utils:regroup", REPLICA_CONTEXT.why)
PS_INITIALIZE = Private(
    "tensorflow.python.distribute.parameter_server_strategy:ParameterServerStrategyExtended"
    "._initialize_multi_worker",
    INITIALIZE_MULTI_WORKER.why,
)
PS_INIT = Seam(
    "tensorflow.python.distribute.parameter_server_strategy_v2:ParameterServerStrategyV2.__init__",
    INITIALIZE_MULTI_WORKER.why,
    takes=("cluster_resolver",),
)
PS_WORKERS = Private(
    "tensorflow.python.distribute.parameter_server_strategy_v2:ParameterServerStrategyV2._num_workers",
    "how many workers compute gradients for parameter servers",
)
PS_SERVERS = Private(
    "tensorflow.python.distribute.parameter_server_strategy_v2:ParameterServerStrategyV2._num_ps",
    "how many parameter servers a log names",
)
COORDINATOR_CLUSTER = Private(
    "tensorflow.python.distribute.coordinator.cluster_coordinator:ClusterCoordinator._cluster",
    "the public schedule takes only functions that run wholly on a worker",
)
SERVER_INIT = Seam(
    "tensorflow.python.training.server_lib:Server.__init__",
    "tasks meet before a server of TensorFlow binds a port",
    takes=("server_or_cluster_def", "job_name", "task_index"),
)
SERVER_JOIN = Seam(
    "tensorflow.python.training.server_lib:Server.join", "a parameter server ends with its job"
)
CLUSTER_SPEC = Seam("tensorflow.python.training.server_lib:ClusterSpec", SERVER_INIT.why)
EXPERIMENTAL_DISTRIBUTE = Seam(
    "tensorflow.python.distribute.distribute_lib:StrategyBase.experimental_distribute_dataset",
    "rows that are each worker's own are not divided",
    takes=("dataset", "options"),
)
FUNCTION_DATASETS = Private(
    "tensorflow.python.distribute.input_lib:DistributedDatasetsFromFunction._datasets",
    "the worker's own data set of distribute_datasets_from_function",
)
FUNCTION_STRATEGY = Private(
    "tensorflow.python.distribute.input_lib:DistributedDatasetsFromFunction._strategy", FUNCTION_DATASETS.why
)
STRATEGY_NEW = Seam(
    "tensorflow.python.distribute.distribute_lib:StrategyBase.__new__",
    "a program with a default strategy makes no other",
)
HAS_STRATEGY = Seam("tensorflow.python.distribute.distribute_lib:has_strategy", "whether one is in force")
SET_STRATEGY = Seam(
    "tensorflow.python.distribute.distribute_lib:experimental_set_strategy",
    "the default strategy of a program that makes none",
)
ASKED_FOR_STRATEGY = tuple(
    Seam(f"tensorflow:{api}.{name}", "the default strategy is there when a program asks")
    for api in ("distribute", "compat.v2.distribute")
    for name in ("has_strategy", "get_strategy")
)
GRADIENT = Seam(
    "tensorflow.python.eager.backprop:GradientTape.gradient",
    "differentiates the worker's part of a loss; a loop without a strategy is refused",
    takes=("target", "sources", "output_gradients"),
)
MAKE_VARIABLE = Seam(
    "tensorflow.python.ops.variables:VariableMetaclass.__call__",
    "the default strategy is there before the first variable",
)
GRAPH_STACK = Private(
    "tensorflow.python.framework.ops:_default_graph_stack", "clear_session() discards the default strategy"
)
RESET_GRAPHS = Seam(f"{GRAPH_STACK}.reset", GRAPH_STACK.why)
DEFAULT_GRAPH = Seam(
    "tensorflow.python.framework.ops:get_default_graph", "whether this is inside of a function"
)
VARIABLE_CREATORS = Private(
    "tensorflow.python.framework.ops:Graph._variable_creator_stack", DEFAULT_GRAPH.why
)
FUNCTION_CALL = Seam(
    "tensorflow.python.eager.polymorphic_function.polymorphic_function:Function.__call__",
    "a worker that waits in TensorFlow is seen; functions in a step are a part of its graph",
)
AUTOGRAPH = Private(
    "tensorflow.python.eager.polymorphic_function.polymorphic_function:Function._autograph", FUNCTION_CALL.why
)
JIT_COMPILE = Private(
    "tensorflow.python.eager.polymorphic_function.polymorphic_function:Function._jit_compile",
    FUNCTION_CALL.why,
)
AUTOGRAPH_STATUS = Seam("tensorflow.python.autograph.core.ag_ctx:Status", FUNCTION_CALL.why)
AUTOGRAPH_CONTEXT = Seam("tensorflow.python.autograph.core.ag_ctx:ControlStatusCtx", FUNCTION_CALL.why)
AUTOGRAPH_CONVERT = Seam("tensorflow.python.autograph.impl.api:tf_convert", FUNCTION_CALL.why)
REDUCE = Seam(
    "tensorflow.python.distribute.cross_device_ops:CrossDeviceOps.reduce",
    "a worker that waits in a collective operation is seen",
)
BATCH_REDUCE = Seam("tensorflow.python.distribute.cross_device_ops:CrossDeviceOps.batch_reduce", REDUCE.why)
GATHER = Private("tensorflow.python.distribute.cross_device_ops:CrossDeviceOps._gather", REDUCE.why)

# Models.

FIT = Seam(
    "keras.src.models.model:Trainer.fit",
    "a model that one of several workers would train alone is refused, and calls are compared (see calls.py)",
    takes=("x", "batch_size", "callbacks"),
)
EVALUATE = Seam("keras.src.models.model:Trainer.evaluate", FIT.why, takes=("x", "callbacks"))
PREDICT = Seam("keras.src.models.model:Trainer.predict", FIT.why, takes=("x", "callbacks"))
TRAIN_ON_BATCH = Seam("keras.src.models.model:Trainer.train_on_batch", FIT.why)
APPLY = Seam("keras.src.optimizers.base_optimizer:BaseOptimizer.apply", FIT.why)
KERAS_2_FIT = Seam("tf_keras.src.engine.training:Model.fit", FIT.why, takes=("x", "batch_size"))
KERAS_2_TRAIN_ON_BATCH = Seam("tf_keras.src.engine.training:Model.train_on_batch", FIT.why)
KERAS_2_APPLY = Seam("tf_keras.src.optimizers.optimizer:Optimizer.apply_gradients", FIT.why)
KERAS_2_OLD_APPLY = Seam("tf_keras.src.optimizers.legacy.optimizer_v2:OptimizerV2.apply_gradients", FIT.why)
MAKE_TRAIN = Seam(
    "keras.src.backend.tensorflow.trainer:TensorFlowTrainer.make_train_function",
    "an execution of steps works on the rows of this worker",
    takes=("force",),
)
MAKE_TEST = Seam(
    "keras.src.backend.tensorflow.trainer:TensorFlowTrainer.make_test_function",
    MAKE_TRAIN.why,
    takes=("force",),
)
MAKE_PREDICT = Seam(
    "keras.src.backend.tensorflow.trainer:TensorFlowTrainer.make_predict_function",
    MAKE_TRAIN.why,
    takes=("force",),
)
MAYBE_SYMBOLIC_BUILD = Private(
    "keras.src.backend.tensorflow.trainer:TensorFlowTrainer._maybe_symbolic_build",
    "Keras's own build fails on several workers",
    takes=("iterator", "data_batch"),
)
MODEL_STRATEGY = Private(
    "keras.src.backend.tensorflow.trainer:TensorFlowTrainer._distribute_strategy",
    "the strategy with which a model trains",
)
INITIAL_EPOCH = Private("keras.src.trainers.trainer:Trainer._initial_epoch", "a training resumes at an epoch")
SYMBOLIC_BUILD = Private(
    "keras.src.trainers.trainer:Trainer._symbolic_build", "a model is built without reading a batch"
)
FUNCTIONAL = Seam("keras.src.models:Functional", SYMBOLIC_BUILD.why)
SYMBOLIC_SCOPE = Seam("keras.src.backend:SymbolicScope", SYMBOLIC_BUILD.why)
VALUE_SPECS = Private("tensorflow.python.distribute.values:PerReplicaSpec._value_specs", SYMBOLIC_BUILD.why)
RESULT_OR_LOGS = Private(
    "keras.src.trainers.trainer:Trainer._get_metrics_result_or_logs",
    "what train_on_batch returns",
)
FLATTEN_LAYERS = Private(
    "keras.src.layers.layer:Layer._flatten_layers", "moving statistics are the mean of the workers'"
)
NON_TRAINABLE = Private("keras.src.layers.layer:Layer._non_trainable_variables", FLATTEN_LAYERS.why)
PATH = Private(
    "keras.src.backend.common.variables:Variable._path",
    "a piece of a weight on parameter servers has the weight's path",
)
PROFILED = Private(
    "keras.src.callbacks.tensorboard:TensorBoard._start_batch", "a callback that profiles needs single steps"
)
TRAINED_VARIABLES = Private(
    "keras.src.optimizers.base_optimizer:BaseOptimizer._trainable_variables",
    "whether an optimizer's weights are on parameter servers",
)
KERAS_2_STRATEGY = Private("tf_keras.src.engine.training:Model._distribution_strategy", MODEL_STRATEGY.why)
COMPILE = Seam(
    "keras.src.trainers.trainer:Trainer.compile",
    "metrics and optimizers made outside of the scope move into it; whether steps per execution are chosen",
)
COMPILE_FROM_CONFIG = Seam(
    "keras.src.trainers.trainer:Trainer.compile_from_config",
    "the configuration of a saved model has all arguments, also those that nobody chose",
    takes=("config",),
)
NUMBER_OF_VARIABLE = Seam(
    "tensorflow.python.distribute.values:DistributedVariable", "int(optimizer.iterations) under a strategy"
)
CALLBACKS_INIT = Seam(
    "keras.src.callbacks.callback_list:CallbackList.__init__",
    "every fit writes metrics, and saves at a signal",
)
CALLBACKS_EPOCH_END = Seam(
    "keras.src.callbacks.callback_list:CallbackList.on_epoch_end", "all workers stop after the same epoch"
)

# Losses.

LOSS_CALL = Seam(
    "keras.src.losses.loss:Loss.__call__",
    "a loss that is one number for the batch is computed of the rows of all workers",
    takes=("y_true", "y_pred", "sample_weight"),
)
REDUCE_VALUES = Seam(
    "keras.src.losses.loss:reduce_values",
    "a worker's loss is its part of the whole batch's",
    takes=("values", "sample_weight", "reduction"),
)
REDUCE_WEIGHTED_VALUES = Seam(
    "keras.src.losses.loss:reduce_weighted_values", LOSS_CALL.why, takes=("values",)
)
APPLY_MASK = Seam(
    "keras.src.losses.loss:apply_mask",
    REDUCE_VALUES.why,
    takes=("sample_weight", "mask", "dtype", "reduction"),
)
SCALE_LOSS = Seam("keras.src.losses.loss:scale_loss_for_distribution", REDUCE_VALUES.why, takes=("value",))
UNSCALE_LOSS = Seam(
    "keras.src.losses.loss:unscale_loss_for_distribution", REDUCE_VALUES.why, takes=("value",)
)
BUILD_LOSS = Seam(
    "keras.src.trainers.compile_utils:CompileLoss.build", "the losses of several outputs are tracked as parts"
)
GET_MASK = Seam("keras.src.backend:get_keras_mask", "a gathered batch keeps its mask")
SET_MASK = Seam("keras.src.backend:set_keras_mask", GET_MASK.why)
AVERAGE_LOSS = Seam(
    "tensorflow.python.ops.nn_impl_distribute:compute_average_loss",
    "its result is a part of the loss already",
)
SCALE_REGULARIZATION = Seam(
    "tensorflow.python.ops.nn_impl_distribute:scale_regularization_loss", AVERAGE_LOSS.why
)

# Sums over the workers.

CLIP_GRADIENTS = Private(
    "keras.src.backend.tensorflow.optimizer:TFOptimizer._clip_gradients",
    "gradients are summed before they are clipped",
)
SUM_GRADIENTS = Private(
    "keras.src.backend.tensorflow.optimizer:TFOptimizer._all_reduce_sum_gradients", CLIP_GRADIENTS.why
)
LOSS_SCALE_APPLY = Seam(
    "keras.src.optimizers.loss_scale_optimizer:LossScaleOptimizer.apply",
    "all workers leave out the same steps",
)
OPTIMIZER_BUILD = Seam(
    "keras.src.optimizers.base_optimizer:BaseOptimizer.build",
    "an optimizer made outside of the scope gets the strategy of the weights",
)
OPTIMIZER_STRATEGY = Private(
    "keras.src.backend.tensorflow.optimizer:TFOptimizer._distribution_strategy", OPTIMIZER_BUILD.why
)
LAUNCHER = Seam(
    "tensorflow.python.distribute.cross_device_utils:CollectiveReplicaLauncher",
    "gathers whose sizes change in a loop get keys of their own",
)
LAUNCHERS = Private(
    "tensorflow.python.distribute.cross_device_ops:CollectiveAllReduce._launchers", LAUNCHER.why
)
ALL_GATHER = Private(f"{LAUNCHER}._all_gather", LAUNCHER.why)
LAUNCHER_KEYS = Private(f"{LAUNCHER}._collective_keys", LAUNCHER.why)
LAUNCHER_DEVICE = Private(f"{LAUNCHER}._device", LAUNCHER.why)
GROUP_KEY = Private(f"{LAUNCHER}._group_key", LAUNCHER.why)
GROUP_SIZE = Private(f"{LAUNCHER}._group_size", LAUNCHER.why)
NEXT_KEY = Private(f"{LAUNCHER}._next_instance_key", LAUNCHER.why)
USE_UNIQUE_KEY = Private(f"{LAUNCHER}._use_unique_instance_key", LAUNCHER.why)
GET_TOKEN = Private(f"{LAUNCHER}._get_ordering_token", "16-bit gradients are exchanged in order")
TOKEN = Private(f"{LAUNCHER}._ordering_token", "sums of tfmuster's own come in order among TensorFlow's")
KEYS_LOCK = Private("tensorflow.python.distribute.cross_device_utils:CollectiveKeys._lock", LAUNCHER.why)
KEYS_TABLE = Private(
    "tensorflow.python.distribute.cross_device_utils:CollectiveKeys._instance_key_table", LAUNCHER.why
)
BROADCAST_SEND = Seam(
    "tensorflow.python.ops.collective_ops:broadcast_send", "first values of any type reach all workers"
)
BROADCAST_RECEIVE = Seam("tensorflow.python.ops.collective_ops:broadcast_recv", BROADCAST_SEND.why)
ALL_TO_ALL = Seam(
    "tensorflow.python.ops.gen_collective_ops:collective_all_to_all_v2", GET_TOKEN.why, essential=False
)

# Metrics.

MEAN_UPDATE = Seam(
    "keras.src.metrics.reduction_metrics:Mean.update_state",
    "one number of a step is counted as this worker's part of it",
    takes=("values", "sample_weight"),
)
SUM_UPDATE = Seam(
    "keras.src.metrics.reduction_metrics:Sum.update_state", MEAN_UPDATE.why, takes=("values", "sample_weight")
)
WRAPPER_UPDATE = Seam(
    "keras.src.metrics.reduction_metrics:MeanMetricWrapper.update_state",
    "a function that returns one number for all rows gets the rows of all workers",
    takes=("y_true", "y_pred", "sample_weight"),
)
WRAPPER_FUNCTION = Private("keras.src.metrics.reduction_metrics:MeanMetricWrapper._fn", WRAPPER_UPDATE.why)
METRIC_VARIABLES = Private(
    "keras.src.metrics.metric:Metric._variables", "a worker without rows adds nothing to a metric"
)
METRICS_INSIDE = Private("keras.src.metrics.metric:Metric._metrics", METRIC_VARIABLES.why)
SYNC_ON_READ = Seam(
    "tensorflow.python.distribute.values:SyncOnReadVariable",
    "metrics are read with one sum for all, and an assigned value counts once",
)
ASSIGN = Private("keras.src.backend.tensorflow.core:Variable._direct_assign", SYNC_ON_READ.why)
INITIALIZE = Private("keras.src.backend.tensorflow.core:Variable._initialize", SYNC_ON_READ.why)
VALUE = Private("keras.src.backend.common.variables:Variable._value", SYNC_ON_READ.why)
METRICS_RESULT = Seam("keras.src.trainers.trainer:Trainer.get_metrics_result", SYNC_ON_READ.why)
PYTHONIFY_LOGS = Seam("keras.src.utils.python_utils:pythonify_logs", SYNC_ON_READ.why)

# Random numbers.

RANDOM_TF = Seam(
    "keras.src.backend.tensorflow.random:tf", "a worker draws the random numbers of its own rows of a batch"
)
IMAGE_TF = Seam("keras.src.backend.tensorflow.image:tf", RANDOM_TF.why)
KEY_COUNTER_ALGORITHM = Seam(
    "tensorflow.python.ops.random_ops_util:get_key_counter_alg", RANDOM_TF.why, takes=("seed", "alg")
)
STATELESS_UNIFORM = Seam(
    "tensorflow.python.ops.gen_stateless_random_ops_v2:stateless_random_uniform_v2",
    RANDOM_TF.why,
    takes=("shape", "key", "counter", "alg", "dtype"),
)
STATELESS_NORMAL = Seam(
    "tensorflow.python.ops.gen_stateless_random_ops_v2:stateless_random_normal_v2",
    RANDOM_TF.why,
    takes=("shape", "key", "counter", "alg", "dtype"),
)
SHAPE_OF_VALUE = Seam("tensorflow.python.framework.tensor_util:constant_value_as_shape", RANDOM_TF.why)
FIRST_VALUES = Private(
    "keras.src.backend.tensorflow.core:Variable._initialize_with_initializer",
    "the first values of a weight are the same on all workers",
)
STATEFUL_RANDOM = tuple(
    Seam(
        f"tensorflow.python.ops.gen_random_ops:{name}",
        "TensorFlow's operations with a state draw other numbers on each worker",
        takes=("seed", "seed2"),
    )
    for name in (
        *("random_standard_normal", "random_uniform", "random_uniform_int", "truncated_normal"),
        *("parameterized_truncated_normal", "random_gamma", "random_poisson_v2", "random_shuffle"),
        "multinomial",
    )
)
HISTOGRAM = Private(
    "keras.src.layers.preprocessing.image_preprocessing.equalization:Equalization"
    "._custom_histogram_fixed_width",
    "Equalization and RandAugment see the rows of all workers",
)

# Data.

EPOCHS = Seam(
    "keras.src.backend.tensorflow.trainer:TFEpochIterator",
    "a worker iterates a local pipeline of its rows",
)
EPOCHS_INIT = Seam(f"{EPOCHS}.__init__", EPOCHS.why, takes=("distribute_strategy",))
EPOCHS_STRATEGY = Private(f"{EPOCHS}._distribute_strategy", EPOCHS.why)
EPOCHS_STEPS = Private(
    f"{EPOCHS}._enumerate_iterator", "a training resumes in the middle of an epoch; steps form executions"
)
CATCH_STOP = Seam(f"{EPOCHS}.catch_stop_iteration", "the exception of a data set is raised as it is")
EPOCHS_DATASET = Private(
    "keras.src.backend.tensorflow.trainer:TFEpochIterator._distributed_dataset",
    "a worker's part of the data",
)
NUM_BATCHES = Private(
    "keras.src.trainers.epoch_iterator:EpochIterator._num_batches", "how many steps an epoch has"
)
ADAPTED_DATASET = Private(
    "keras.src.trainers.data_adapters.tf_dataset_adapter:TFDatasetAdapter._dataset",
    "workers compare their data, and a bad row is named",
)
ADAPTED_ARRAYS = Private(
    "keras.src.trainers.data_adapters.array_data_adapter:ArrayDataAdapter._inputs", ADAPTED_DATASET.why
)
ADAPTED_ROWS = Private(
    "keras.src.trainers.data_adapters.array_data_adapter:ArrayDataAdapter._num_samples", ADAPTED_DATASET.why
)
FIRST_BATCHES = Private(
    "keras.src.trainers.data_adapters.generator_data_adapter:GeneratorDataAdapter._first_batches",
    ADAPTED_DATASET.why,
)
ITEMS_ITERATOR = Private(
    "keras.src.trainers.data_adapters.py_dataset_adapter:PyDatasetAdapter._get_iterator",
    "an exception of a PyDataset is raised as it is",
)
OPTIONAL_SPEC = Private(
    "tensorflow.python.data.ops.optional_ops:_OptionalImpl._element_spec",
    "the initial value of a loop gets the type of what the loop returns",
)
OPTIONAL_ELEMENT = Private(
    "tensorflow.python.data.ops.optional_ops:OptionalSpec._element_spec", "an absent value has the right type"
)
INPUTS = Private(
    "tensorflow.python.data.ops.dataset_ops:DatasetV2._inputs", "the steps of a pipeline are read"
)
FUNCTIONS = Private("tensorflow.python.data.ops.dataset_ops:DatasetV2._functions", INPUTS.why)
FLAT_STRUCTURE = Private("tensorflow.python.data.ops.dataset_ops:DatasetV2._flat_structure", INPUTS.why)
VARIANT = Private("tensorflow.python.data.ops.dataset_ops:DatasetV2._variant_tensor", INPUTS.why)
METADATA = Private("tensorflow.python.data.ops.dataset_ops:DatasetV2._metadata", INPUTS.why)
VARIANT_DATASET = Private("tensorflow.python.data.ops.dataset_ops:_VariantDataset", INPUTS.why)
BATCH_SIZE = Private("tensorflow.python.data.ops.batch_op:_BatchDataset._batch_size", INPUTS.why)
DROP_REMAINDER = Private("tensorflow.python.data.ops.batch_op:_BatchDataset._drop_remainder", INPUTS.why)
REBATCH_SIZES = Private("tensorflow.python.data.ops.rebatch_op:_RebatchDataset._batch_sizes", INPUTS.why)
MAP_FUNCTION = Private("tensorflow.python.data.ops.map_op:_MapDataset._map_func", INPUTS.why)
CACHE_FILE = Private("tensorflow.python.data.ops.cache_op:CacheDataset._filename", INPUTS.why)
ZIPPED = Private("tensorflow.python.data.ops.zip_op:_ZipDataset._datasets", INPUTS.why)
TENSORS = Private("tensorflow.python.data.ops.from_tensor_slices_op:_TensorSliceDataset._tensors", INPUTS.why)
REPEAT_COUNT = Private("tensorflow.python.data.ops.repeat_op:_RepeatDataset._count", INPUTS.why)
NUM_SHARDS = Private("tensorflow.python.data.ops.shard_op:_ShardDataset._num_shards", INPUTS.why)
SHARD_INDEX = Private("tensorflow.python.data.ops.shard_op:_ShardDataset._index", INPUTS.why)
BUFFER_SIZE = Private("tensorflow.python.data.ops.shuffle_op:_ShuffleDataset._buffer_size", INPUTS.why)
SHUFFLE_SEED = Private("tensorflow.python.data.ops.shuffle_op:_ShuffleDataset._seed", INPUTS.why)
SHUFFLE_SEED2 = Private("tensorflow.python.data.ops.shuffle_op:_ShuffleDataset._seed2", INPUTS.why)
RESHUFFLES = Private(
    "tensorflow.python.data.ops.shuffle_op:_ShuffleDataset._reshuffle_each_iteration", INPUTS.why
)
SHUFFLE_OPERATIONS = Seam(
    "tensorflow.python.data.ops.shuffle_op:gen_dataset_ops", "two data sets share the order of a shuffle"
)
SHUFFLE_DATASET = Seam("tensorflow.python.ops.gen_dataset_ops:shuffle_dataset_v3", SHUFFLE_OPERATIONS.why)
FILE_NAMES = Private("tensorflow.python.data.ops.readers:TFRecordDatasetV2._filenames", "a bad file is named")
COMPRESSION = Private(
    "tensorflow.python.data.ops.readers:TFRecordDatasetV2._compression_type", FILE_NAMES.why
)
DATA_PACKAGE = Seam("tensorflow.python:data", "the classes of a pipeline's steps are in this package")
NEST = Seam("tensorflow.python.data.util:nest", INPUTS.why)
STRUCTURE = Seam("tensorflow.python.data.util:structure", INPUTS.why)
OP_DEFINITIONS = Seam("tensorflow.python.framework:op_def_registry", "whether an operation has a state")
TFRECORD_READER = Seam(
    "tensorflow.python.lib.io.tf_record:tf_record_random_reader",
    "records of a TFRecord file are read in any order",
    essential=False,
)

# Keras on JAX.

JAX_STATE = Seam(
    "jax._src.distributed:global_state", "whether JAX has connected this process to others, and its place"
)
KERAS_GLOBAL = Seam(
    "keras.src.backend.common.global_state:get_global_attribute",
    "the distribution, without making one",
    backend="jax",
)
TREE = Seam("keras.src:tree", "batches and predictions of any structure", backend="jax")
DATASET_INIT = Seam(
    "keras.src.trainers.data_adapters.tf_dataset_adapter:TFDatasetAdapter.__init__",
    "each process takes its rows of a batch",
    takes=("dataset", "class_weight", "distribution"),
    backend="jax",
)
DATASET_BATCHES = Seam(
    "keras.src.trainers.data_adapters.tf_dataset_adapter:TFDatasetAdapter.get_jax_iterator",
    DATASET_INIT.why,
    backend="jax",
)
SEVERAL_PROCESSES = Private(
    "keras.src.distribution.distribution_lib:DataParallel._is_multi_process",
    DATASET_INIT.why,
    backend="jax",
)
AUTO_SHARD = Private(
    "keras.src.distribution.distribution_lib:DataParallel._auto_shard_dataset",
    DATASET_INIT.why,
    backend="jax",
)
ARRAY_OF_VARIABLE = Seam(
    "keras.src.backend:Variable.__array__", "a weight that is divided among processes is read", backend="jax"
)
JAX_INITIALIZE = Private(
    "keras.src.backend:Variable._initialize", "processes compare the shapes of a new weight", backend="jax"
)
JAX_MAKE = tuple(
    Seam(
        f"keras.src.backend.jax.trainer:JAXTrainer.make_{name}_function",
        "processes compare their calls before the first step",
        takes=("force",),
    )
    for name in ("train", "test", "predict")
)
JAX_EVALUATION = Private(
    "keras.src.backend.jax.trainer:JAXTrainer._eval_epoch_iterator", "the data of a validation in fit"
)
JAX_EPOCHS_INIT = Seam(
    "keras.src.backend.jax.trainer:JAXEpochIterator.__init__", "the data of a call are compared"
)
JAX_STEPS = Private("keras.src.backend.jax.trainer:JAXEpochIterator._enumerate_iterator", "which step runs")
JAX_BATCHES = Private(
    "keras.src.backend.jax.trainer:JAXEpochIterator._get_iterator",
    "a process that waits for the others in a step is seen, and a bad row is named",
)
JAX_CATCH_STOP = Seam(
    "keras.src.backend.jax.trainer:JAXEpochIterator.catch_stop_iteration",
    "processes compare where their data end",
)

# Files.

SAVER_SAVE = Seam(
    "tensorflow.python.checkpoint.checkpoint:TrackableSaver.save",
    "workers write one checkpoint to one folder without removing each other's parts",
    takes=("file_prefix",),
)
DELETE_CHECKPOINT = Private(
    "tensorflow.python.checkpoint.checkpoint_management:_delete_file_if_exists",
    "another worker may have removed an old checkpoint",
    essential=False,
)
MATCHING_FILES = Seam(
    "tensorflow.python.lib.io.file_io:get_matching_files", DELETE_CHECKPOINT.why, essential=False
)
DELETE_FILE = Seam("tensorflow.python.lib.io.file_io:delete_file", DELETE_CHECKPOINT.why, essential=False)
NOT_FOUND = Seam("tensorflow.python.framework.errors:NotFoundError", DELETE_CHECKPOINT.why, essential=False)
SAVE_SAVED_MODEL = Seam("tensorflow.python.saved_model.save:save", "only the chief's files are kept")
LOAD_SAVED_MODEL = Seam("tensorflow.python.saved_model.load:load", "other workers read their own copies")
WRITERS = tuple(
    Seam(where, SAVE_SAVED_MODEL.why)
    for where in (
        "keras.src.saving.saving_lib:save_model",
        "keras.src.saving.saving_lib:save_weights_only",
        "keras.src.legacy.saving.legacy_h5_format:save_model_to_hdf5",
    )
)
EXPORTED_WRITERS = tuple(
    Seam(where, SAVE_SAVED_MODEL.why)
    for where in (
        "keras.src.saving.saving_api:save_model",
        "keras.src.saving.saving_api:save_weights",
        "keras.src.utils.model_visualization:plot_model",
    )
)
READERS = tuple(
    Seam(where, LOAD_SAVED_MODEL.why)
    for where in (
        "keras.src.saving.saving_api:load_model",
        "keras.src.saving.saving_api:load_weights",
        "keras.src.saving.saving_lib:load_model",
        "keras.src.saving.saving_lib:load_weights_only",
        "keras.src.legacy.saving.legacy_h5_format:load_model_from_hdf5",
    )
)
MODEL_SAVE = Seam("keras:Model.save", SAVE_SAVED_MODEL.why, takes=("filepath",))
MODEL_SAVE_WEIGHTS = Seam("keras:Model.save_weights", SAVE_SAVED_MODEL.why, takes=("filepath",))
MODEL_EXPORT = Seam("keras:Model.export", SAVE_SAVED_MODEL.why, takes=("filepath",))
TENSORBOARD_MODEL = Seam("keras:callbacks.TensorBoard.set_model", SAVE_SAVED_MODEL.why)
CSV_MODEL = Seam("keras:callbacks.CSVLogger.set_model", SAVE_SAVED_MODEL.why)
BACKUP_MODEL = Seam("keras:callbacks.BackupAndRestore.set_model", SAVE_SAVED_MODEL.why)
BACKUP_RESTORE = Seam(
    "keras:callbacks.BackupAndRestore.on_train_begin",
    "all workers restore the chief's backup",
    takes=("logs",),
)
EXPORT_ARCHIVE = Seam("keras.src.export.saved_model:ExportArchive", SAVE_SAVED_MODEL.why)
TRACK = Seam("keras.src.export.saved_model:ExportArchive.track", SAVE_SAVED_MODEL.why)
WRITE_OUT = Seam("keras.src.export.saved_model:ExportArchive.write_out", SAVE_SAVED_MODEL.why)
EDITOR_INIT = Seam("keras.src.saving.file_editor:KerasFileEditor.__init__", LOAD_SAVED_MODEL.why)
EDITOR_SAVE = Seam("keras.src.saving.file_editor:KerasFileEditor.save", SAVE_SAVED_MODEL.why)
CALL_LOCATION = Private(
    "tensorflow.python.util.deprecation:_call_location",
    "a deprecated name that R uses has no caller in Python",
    essential=False,
)
WRAPPER_LOCATION = Private(
    "tensorflow.python.util.module_wrapper:_call_location", CALL_LOCATION.why, essential=False
)
