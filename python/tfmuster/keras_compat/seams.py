"""The register of seams: each name of Keras and TensorFlow that is not public and that tfmuster relies on.

Nothing but this file names ``keras.src``, ``tensorflow.python``, or an attribute of theirs with an
underscore. A row says where a name is, what it takes, and why it is needed (:mod:`tfmuster.system.register`).
Rows are in the order of what they belong to: the runtime and its strategies, models, losses, sums over the
workers, metrics, random numbers, data, files.
"""

from __future__ import annotations

from ..system.register import Private, Seam


def _seams(prefix: str, names: str, why: str, takes: tuple[str, ...] = ()) -> list[Seam]:
    """Return a row for each of some names that begin alike and are needed for one reason."""
    return [Seam(prefix + name, why, takes=takes) for name in names.split()]


def _privates(prefix: str, names: str, why: str) -> list[Private]:
    """Return a row for each of some attributes of a class that are needed for one reason."""
    return [Private(prefix + name, why) for name in names.split()]


_ADAPTERS = "keras.src.trainers.data_adapters."
_BACKEND = "keras.src.backend.tensorflow."
_DATA = "tensorflow.python.data.ops."
_DISTRIBUTE = "tensorflow.python.distribute."
_FRAMEWORK = "tensorflow.python.framework."
_OPS = "tensorflow.python.ops."

# Strategies, servers and the runtime.

_CONTEXT = "tensorflow.python.eager.context:"
CONTEXT = Seam(f"{_CONTEXT}context", "the runtime of this process, started or not")
EXECUTING_EAGERLY = Seam(f"{_CONTEXT}executing_eagerly", "whether a function is traced")
EAGER_MODE = Seam(f"{_CONTEXT}eager_mode", "to run hooks at the start of the runtime")
START = Seam(
    f"{_CONTEXT}Context.ensure_initialized",
    "hooks run when the runtime starts",
)
STARTED = Private(f"{_CONTEXT}Context._initialized", "whether it has started")
HANDLE = Private(f"{_CONTEXT}Context._context_handle", "whether it has started its server")
SERVER = Private(
    f"{_CONTEXT}Context._collective_ops_server_def",
    "the cluster that this process has joined, and its place there",
)
ENABLE_COLLECTIVES = Seam(
    f"{_CONTEXT}Context.enable_collective_ops",
    "all strategies of a process use the server of the first one",
    takes=("server_def",),
)
ADD_C_FUNCTION, ADD_FUNCTION_DEF, REMOVE_FUNCTION = _seams(
    f"{_CONTEXT}Context.",
    "add_c_function add_function_def remove_function",
    "servers are reached before calls that hold Python's lock",
)
C_ENABLE_COLLECTIVES = Seam(
    "tensorflow.python.pywrap_tfe:TFE_EnableCollectiveOps",
    "the server starts without holding Python's lock",
    essential=False,
)
TAPE_STOPPED, TAPE_EMPTY = _seams(
    "tensorflow.python.pywrap_tfe:TFE_Py_TapeSet", "IsStopped IsEmpty", "whether a tape is around a step"
)
ERROR_OF_CODE = Seam(
    f"{_FRAMEWORK}errors_impl:exception_type_from_error_code", "the error of a server that could not start"
)

_COLLECTIVE = f"{_DISTRIBUTE}collective_all_reduce_strategy:"
COLLECTIVE_STRATEGY = Seam(
    f"{_COLLECTIVE}CollectiveAllReduceStrategy",
    "the strategy that programs make, and the default one of a program that makes none",
)
COLLECTIVE_INIT, COLLECTIVE_V1_INIT = _seams(
    f"{_COLLECTIVE}CollectiveAllReduceStrategy",
    ".__init__ V1.__init__",
    "workers meet, and share a seed, when one is made",
)
COLLECTIVE_NEW = Seam(f"{COLLECTIVE_STRATEGY}.__new__", "a program with a default strategy has no other")
COLLECTIVE = Seam(
    f"{_COLLECTIVE}CollectiveAllReduceExtended",
    "tells a strategy of several workers, of TensorFlow 2 and of compat.v1",
)
IN_MULTI_WORKER_MODE = Private(f"{COLLECTIVE}._in_multi_worker_mode", "whether it has a cluster")
INITIALIZE_MULTI_WORKER = Private(
    f"{COLLECTIVE}._initialize_multi_worker",
    "the workers meet when the cluster is known, before a port is bound",
)
COLLECTIVE_KEYS = Private(f"{COLLECTIVE}._collective_keys", "strategies share the keys of collectives")
CREATE_VARIABLE = Private(f"{COLLECTIVE}._create_variable", "a weight that differs between workers is named")
CROSS_DEVICE_OPS, HOST_CROSS_DEVICE_OPS = _privates(
    f"{COLLECTIVE}.", "_cross_device_ops _host_cross_device_ops", "its launchers of collectives"
)
NUMBER_OF_WORKERS = Private(
    f"{COLLECTIVE}._num_workers", "the first step is traced once more as one process would, to compare it"
)
MAKE_INPUT_CONTEXT = Private(f"{COLLECTIVE}._make_input_context", "this worker's number, and that of all")
USE_MERGE_CALL = Private(f"{COLLECTIVE}._use_merge_call", "sums of gradients may be in a branch or a loop")
OWN_DEVICES = _seams(
    _DISTRIBUTE,
    "central_storage_strategy:CentralStorageStrategy.__init__ "
    "central_storage_strategy:CentralStorageStrategyV1.__init__ "
    "mirrored_strategy:MirroredStrategy.__init__ "
    "mirrored_strategy:MirroredStrategyV1.__init__",
    "this process joins its cluster before a strategy of its own devices starts TensorFlow",
)
LOCAL_DEVICES = Seam(
    f"{_DISTRIBUTE}mirrored_strategy:all_local_devices",
    "in a cluster it lists the devices of all workers, which ends the process by SIGSEGV",
    takes=("num_gpus",),
)
CALL_REPLICAS = Private(
    f"{_DISTRIBUTE}mirrored_run:_call_for_each_replica",
    "one replica runs in the caller's thread, where R's functions can be called",
    takes=("fn", "args", "kwargs"),
)
REPLICA_CONTEXT = Seam(f"{_DISTRIBUTE}distribute_lib:ReplicaContext", "a replica's context without a thread")
REPLICA_NUMBER = Private(
    f"{_DISTRIBUTE}distribute_lib:ReplicaContextBase._replica_id",
    "16-bit gradients use the launcher of this replica",
)
MERGE_CALL = Private(f"{REPLICA_CONTEXT}._merge_call", REPLICA_CONTEXT.why)
REPLICA_ID = Private(f"{COLLECTIVE}._get_replica_id_in_sync_group", REPLICA_CONTEXT.why)
SELECT_REPLICA, REGROUP = _seams(
    f"{_DISTRIBUTE}distribute_utils:", "select_replica regroup", REPLICA_CONTEXT.why
)
PS_INITIALIZE = Private(
    f"{_DISTRIBUTE}parameter_server_strategy:ParameterServerStrategyExtended._initialize_multi_worker",
    INITIALIZE_MULTI_WORKER.why,
)
_PS_STRATEGY = f"{_DISTRIBUTE}parameter_server_strategy_v2:ParameterServerStrategyV2"
PS_INIT = Seam(f"{_PS_STRATEGY}.__init__", INITIALIZE_MULTI_WORKER.why, takes=("cluster_resolver",))
PS_WORKERS = Private(f"{_PS_STRATEGY}._num_workers", "how many workers compute for parameter servers")
PS_SERVERS = Private(f"{_PS_STRATEGY}._num_ps", "how many parameter servers a log names")
COORDINATOR_CLUSTER = Private(
    f"{_DISTRIBUTE}coordinator.cluster_coordinator:ClusterCoordinator._cluster",
    "the public schedule takes only functions that run wholly on a worker",
)
_SERVER_LIB = "tensorflow.python.training.server_lib:"
SERVER_INIT = Seam(
    f"{_SERVER_LIB}Server.__init__",
    "tasks meet before a server of TensorFlow binds a port",
    takes=("server_or_cluster_def", "job_name", "task_index"),
)
SERVER_JOIN = Seam(f"{_SERVER_LIB}Server.join", "a parameter server ends with its job")
CLUSTER_SPEC = Seam(f"{_SERVER_LIB}ClusterSpec", SERVER_INIT.why)
EXPERIMENTAL_DISTRIBUTE = Seam(
    f"{_DISTRIBUTE}distribute_lib:StrategyBase.experimental_distribute_dataset",
    "rows that are each worker's own are not divided",
    takes=("dataset", "options"),
)
FUNCTION_DATASETS, FUNCTION_STRATEGY = _privates(
    f"{_DISTRIBUTE}input_lib:DistributedDatasetsFromFunction.",
    "_datasets _strategy",
    "the worker's own data set of distribute_datasets_from_function",
)
ORIGINAL_DATASET = Private(
    f"{_DISTRIBUTE}input_lib:DistributedDataset._original_dataset",
    "each row of distributed data counts alike",
)
DISTRIBUTED_DATASET = Seam(f"{_DISTRIBUTE}input_lib:DistributedDataset", ORIGINAL_DATASET.why)
STRATEGY_NEW = Seam(f"{_DISTRIBUTE}distribute_lib:StrategyBase.__new__", COLLECTIVE_NEW.why)
HAS_STRATEGY = Seam(f"{_DISTRIBUTE}distribute_lib:has_strategy", "whether one is in force")
SET_STRATEGY = Seam(
    f"{_DISTRIBUTE}distribute_lib:experimental_set_strategy",
    "the default strategy of a program that makes none",
)
ASKED_FOR_STRATEGY = _seams(
    "tensorflow:",
    "distribute.has_strategy distribute.get_strategy "
    "compat.v2.distribute.has_strategy compat.v2.distribute.get_strategy",
    "the default strategy is there when a program asks",
)
GRADIENT = Seam(
    "tensorflow.python.eager.backprop:GradientTape.gradient",
    "differentiates the worker's part of a loss; a loop without a strategy is refused",
    takes=("target", "sources", "output_gradients"),
)
ADD_OP_CALLBACK, REMOVE_OP_CALLBACK = (
    Seam(
        f"{_FRAMEWORK}op_callbacks:{name}",
        "a variable that is trained by the gradients of one worker is refused",
        essential=False,
    )
    for name in ("add_op_callback", "remove_op_callback")
)
ALL_REDUCE = Seam(
    f"{_DISTRIBUTE}distribute_lib:ReplicaContext.all_reduce",
    ADD_OP_CALLBACK.why,
    takes=("reduce_op", "value"),
)
MAKE_VARIABLE = Seam(
    f"{_OPS}variables:VariableMetaclass.__call__", "the default strategy is there before the first variable"
)
GRAPH_STACK = Private(f"{_FRAMEWORK}ops:_default_graph_stack", "clear_session() drops the default strategy")
RESET_GRAPHS = Seam(f"{GRAPH_STACK}.reset", GRAPH_STACK.why)
DEFAULT_GRAPH = Seam(f"{_FRAMEWORK}ops:get_default_graph", "whether this is inside of a function")
VARIABLE_CREATORS = Private(f"{_FRAMEWORK}ops:Graph._variable_creator_stack", DEFAULT_GRAPH.why)
_FUNCTION = "tensorflow.python.eager.polymorphic_function.polymorphic_function:Function"
FUNCTION_CALL = Seam(
    f"{_FUNCTION}.__call__",
    "a worker that waits in TensorFlow is seen; functions in a step are a part of its graph",
)
AUTOGRAPH, JIT_COMPILE = _privates(f"{_FUNCTION}.", "_autograph _jit_compile", FUNCTION_CALL.why)
AUTOGRAPH_STATUS, AUTOGRAPH_CONTEXT, AUTOGRAPH_CONVERT = _seams(
    "tensorflow.python.autograph.",
    "core.ag_ctx:Status core.ag_ctx:ControlStatusCtx impl.api:tf_convert",
    FUNCTION_CALL.why,
)
_CROSS_DEVICE_OPS = f"{_DISTRIBUTE}cross_device_ops:CrossDeviceOps."
REDUCE, BATCH_REDUCE = _seams(
    _CROSS_DEVICE_OPS, "reduce batch_reduce", "a worker that waits in a collective operation is seen"
)
GATHER = Private(f"{_CROSS_DEVICE_OPS}_gather", REDUCE.why)

# Models.

FIT = Seam(
    "keras.src.models.model:Trainer.fit",
    "a model that one of several workers would train alone is refused, and calls are compared (see calls.py)",
    takes=("x", "batch_size", "callbacks"),
)
EVALUATE, PREDICT = _seams(
    "keras.src.models.model:Trainer.", "evaluate predict", FIT.why, takes=("x", "callbacks")
)
TRAIN_ON_BATCH, APPLY = _seams(
    "keras.src.", "models.model:Trainer.train_on_batch optimizers.base_optimizer:BaseOptimizer.apply", FIT.why
)
KERAS_2_FIT = Seam("tf_keras.src.engine.training:Model.fit", FIT.why, takes=("x", "batch_size"))
KERAS_2_TRAIN_ON_BATCH, KERAS_2_APPLY, KERAS_2_OLD_APPLY = _seams(
    "tf_keras.src.",
    "engine.training:Model.train_on_batch optimizers.optimizer:Optimizer.apply_gradients "
    "optimizers.legacy.optimizer_v2:OptimizerV2.apply_gradients",
    FIT.why,
)
MAKE_TRAIN, MAKE_TEST, MAKE_PREDICT = _seams(
    f"{_BACKEND}trainer:TensorFlowTrainer.",
    "make_train_function make_test_function make_predict_function",
    "an execution of steps works on the rows of this worker",
    takes=("force",),
)
MAYBE_SYMBOLIC_BUILD = Private(
    f"{_BACKEND}trainer:TensorFlowTrainer._maybe_symbolic_build",
    "Keras's own build fails on several workers",
    takes=("iterator", "data_batch"),
)
MODEL_STRATEGY = Private(
    f"{_BACKEND}trainer:TensorFlowTrainer._distribute_strategy", "the strategy with which a model trains"
)
_TRAINER = "keras.src.trainers.trainer:Trainer."
COMPILE_CONFIG = Private(
    f"{_TRAINER}_compile_config", "what the workers have compiled a model with is compared", essential=False
)
INITIAL_EPOCH = Private(f"{_TRAINER}_initial_epoch", "a training resumes at an epoch")
SYMBOLIC_BUILD = Private(f"{_TRAINER}_symbolic_build", "a model is built without reading a batch")
FUNCTIONAL, SYMBOLIC_SCOPE = _seams(
    "keras.src.", "models:Functional backend:SymbolicScope", SYMBOLIC_BUILD.why
)
VALUE_SPECS = Private(f"{_DISTRIBUTE}values:PerReplicaSpec._value_specs", SYMBOLIC_BUILD.why)
RESULT_OR_LOGS = Private(f"{_TRAINER}_get_metrics_result_or_logs", "what train_on_batch returns")
FLATTEN_LAYERS, NON_TRAINABLE = _privates(
    "keras.src.layers.layer:Layer.",
    "_flatten_layers _non_trainable_variables",
    "moving statistics are the mean of the workers'",
)
PATH = Private(
    "keras.src.backend.common.variables:Variable._path",
    "a piece of a weight on parameter servers has the weight's path",
)
PROFILED = Private(
    "keras.src.callbacks.tensorboard:TensorBoard._start_batch", "a callback that profiles needs single steps"
)
TRAINED_VARIABLES = Private(
    "keras.src.optimizers.base_optimizer:BaseOptimizer._trainable_variables",
    "the weights of an optimizer: whether they are on parameter servers, and whose gradient differs",
)
KERAS_2_STRATEGY = Private("tf_keras.src.engine.training:Model._distribution_strategy", MODEL_STRATEGY.why)
COMPILE = Seam(
    f"{_TRAINER}compile",
    "metrics and optimizers made outside of the scope move into it; whether steps per execution are chosen",
)
COMPILE_FROM_CONFIG = Seam(
    f"{_TRAINER}compile_from_config",
    "the configuration of a saved model has all arguments, also those that nobody chose",
    takes=("config",),
)
NUMBER_OF_VARIABLE = Seam(f"{_DISTRIBUTE}values:DistributedVariable", "int(optimizer.iterations)")
_CALLBACKS = "keras.src.callbacks.callback_list:CallbackList."
CALLBACKS_INIT = Seam(f"{_CALLBACKS}__init__", "every fit writes metrics, and saves at a signal")
CALLBACKS_EPOCH_END = Seam(f"{_CALLBACKS}on_epoch_end", "all workers stop after the same epoch")
CALLBACKS_BATCH_END = Seam(f"{_CALLBACKS}on_train_batch_end", "all workers stop after the same step")
ACCUMULATED = Private(
    "keras.src.optimizers.base_optimizer:BaseOptimizer._accumulated_gradients",
    "the workers compare their weights, and each one accumulates gradients of its own",
)

# Losses.

_LOSS = "keras.src.losses.loss:"
LOSS_CALL = Seam(
    f"{_LOSS}Loss.__call__",
    "a loss that is one number for the batch is computed of the rows of all workers",
    takes=("y_true", "y_pred", "sample_weight"),
)
REDUCE_VALUES = Seam(
    f"{_LOSS}reduce_values",
    "a worker's loss is its part of the whole batch's",
    takes=("values", "sample_weight", "reduction"),
)
REDUCE_WEIGHTED_VALUES = Seam(f"{_LOSS}reduce_weighted_values", LOSS_CALL.why, takes=("values",))
APPLY_MASK = Seam(
    f"{_LOSS}apply_mask", REDUCE_VALUES.why, takes=("sample_weight", "mask", "dtype", "reduction")
)
SCALE_LOSS, UNSCALE_LOSS = _seams(
    _LOSS,
    "scale_loss_for_distribution unscale_loss_for_distribution",
    REDUCE_VALUES.why,
    takes=("value",),
)
ADDITIONAL_LOSS = Private(
    "keras.src.backend.tensorflow.trainer:TensorFlowTrainer._aggregate_additional_loss",
    REDUCE_VALUES.why,
    takes=("loss",),
)
BUILD_LOSS = Seam(
    "keras.src.trainers.compile_utils:CompileLoss.build", "the losses of several outputs are tracked as parts"
)
BATCH_MOMENTS = Private(
    "keras.src.layers.normalization.batch_normalization:BatchNormalization._moments",
    "a layer normalizes with the rows of all workers",
    takes=("inputs", "mask"),
)
GET_MASK, SET_MASK = _seams(
    "keras.src.backend:", "get_keras_mask set_keras_mask", "a gathered batch keeps its mask"
)
AVERAGE_LOSS, SCALE_REGULARIZATION = _seams(
    f"{_OPS}nn_impl_distribute:",
    "compute_average_loss scale_regularization_loss",
    "its result is a part of the loss already",
)

# Sums over the workers.

CLIP_GRADIENTS, SUM_GRADIENTS = _privates(
    f"{_BACKEND}optimizer:TFOptimizer.",
    "_clip_gradients _all_reduce_sum_gradients",
    "gradients are summed before they are clipped",
)
ASSIGN_ADD, ASSIGN_SUB = _seams(
    f"{_BACKEND}optimizer:TFOptimizer.",
    "assign_add assign_sub",
    "rows of an embedding that occur often are added in the same order by all workers",
    takes=("variable", "value"),
)
LOSS_SCALE_APPLY = Seam(
    "keras.src.optimizers.loss_scale_optimizer:LossScaleOptimizer.apply",
    "all workers leave out the same steps",
)
OPTIMIZER_BUILD = Seam(
    "keras.src.optimizers.base_optimizer:BaseOptimizer.build",
    "an optimizer made outside of the scope gets the strategy of the weights",
)
OPTIMIZER_STRATEGY = Private(f"{_BACKEND}optimizer:TFOptimizer._distribution_strategy", OPTIMIZER_BUILD.why)
LAUNCHER = Seam(
    f"{_DISTRIBUTE}cross_device_utils:CollectiveReplicaLauncher",
    "gathers whose sizes change in a loop get keys of their own",
)
LAUNCHERS = Private(f"{_DISTRIBUTE}cross_device_ops:CollectiveAllReduce._launchers", LAUNCHER.why)
ALL_GATHER, LAUNCHER_KEYS, LAUNCHER_DEVICE, GROUP_KEY, GROUP_SIZE, NEXT_KEY, USE_UNIQUE_KEY = _privates(
    f"{LAUNCHER}.",
    "_all_gather _collective_keys _device _group_key _group_size _next_instance_key _use_unique_instance_key",
    LAUNCHER.why,
)
GET_TOKEN = Private(f"{LAUNCHER}._get_ordering_token", "16-bit gradients are exchanged in order")
TOKEN = Private(f"{LAUNCHER}._ordering_token", "sums of tfmuster's own come in order among TensorFlow's")
KEYS_LOCK, KEYS_TABLE = _privates(
    f"{_DISTRIBUTE}cross_device_utils:CollectiveKeys.", "_lock _instance_key_table", LAUNCHER.why
)
BROADCAST_SEND, BROADCAST_RECEIVE = _seams(
    f"{_OPS}collective_ops:", "broadcast_send broadcast_recv", "first values of any type reach all workers"
)
ALL_TO_ALL = Seam(f"{_OPS}gen_collective_ops:collective_all_to_all_v2", GET_TOKEN.why, essential=False)

# Metrics.

MEAN_UPDATE, SUM_UPDATE = _seams(
    "keras.src.metrics.reduction_metrics:",
    "Mean.update_state Sum.update_state",
    "one number of a step is counted as this worker's part of it",
    takes=("values", "sample_weight"),
)
WRAPPER_UPDATE = Seam(
    "keras.src.metrics.reduction_metrics:MeanMetricWrapper.update_state",
    "a function that returns one number for all rows gets the rows of all workers",
    takes=("y_true", "y_pred", "sample_weight"),
)
WRAPPER_FUNCTION = Private("keras.src.metrics.reduction_metrics:MeanMetricWrapper._fn", WRAPPER_UPDATE.why)
METRIC_VARIABLES, METRICS_INSIDE = _privates(
    "keras.src.metrics.metric:Metric.",
    "_variables _metrics",
    "a worker without rows adds nothing to a metric",
)
SYNC_ON_READ = Seam(
    f"{_DISTRIBUTE}values:SyncOnReadVariable",
    "metrics are read with one sum for all, and an assigned value counts once",
)
ASSIGN, INITIALIZE = _privates(f"{_BACKEND}core:Variable.", "_direct_assign _initialize", SYNC_ON_READ.why)
VALUE = Private("keras.src.backend.common.variables:Variable._value", SYNC_ON_READ.why)
METRICS_RESULT = Seam(f"{_TRAINER}get_metrics_result", SYNC_ON_READ.why)
PYTHONIFY_LOGS = Seam("keras.src.utils.python_utils:pythonify_logs", SYNC_ON_READ.why)

# Random numbers.

RANDOM_TF, IMAGE_TF = _seams(
    _BACKEND, "random:tf image:tf", "a worker draws the random numbers of its own rows of a batch"
)
KEY_COUNTER_ALGORITHM = Seam(
    f"{_OPS}random_ops_util:get_key_counter_alg", RANDOM_TF.why, takes=("seed", "alg")
)
STATELESS_UNIFORM, STATELESS_NORMAL = _seams(
    f"{_OPS}gen_stateless_random_ops_v2:",
    "stateless_random_uniform_v2 stateless_random_normal_v2",
    RANDOM_TF.why,
    takes=("shape", "key", "counter", "alg", "dtype"),
)
SHAPE_OF_VALUE = Seam(f"{_FRAMEWORK}tensor_util:constant_value_as_shape", RANDOM_TF.why)
FIRST_VALUES = Private(
    f"{_BACKEND}core:Variable._initialize_with_initializer",
    "the first values of a weight are the same on all workers",
)
STATEFUL_RANDOM = _seams(
    f"{_OPS}gen_random_ops:",
    "random_standard_normal random_uniform random_uniform_int truncated_normal "
    "parameterized_truncated_normal random_gamma random_poisson_v2 random_shuffle multinomial",
    "TensorFlow's operations with a state draw other numbers on each worker",
    takes=("seed", "seed2"),
)
HISTOGRAM = Private(
    "keras.src.layers.preprocessing.image_preprocessing.equalization:Equalization"
    "._custom_histogram_fixed_width",
    "Equalization and RandAugment see the rows of all workers",
)

# Data.

EPOCHS = Seam(f"{_BACKEND}trainer:TFEpochIterator", "a worker iterates a local pipeline of its rows")
EPOCHS_INIT = Seam(f"{EPOCHS}.__init__", EPOCHS.why, takes=("distribute_strategy",))
EPOCHS_STRATEGY = Private(f"{EPOCHS}._distribute_strategy", EPOCHS.why)
EPOCHS_STEPS = Private(
    f"{EPOCHS}._enumerate_iterator", "a training resumes in the middle of an epoch; steps form executions"
)
CATCH_STOP = Seam(f"{EPOCHS}.catch_stop_iteration", "the exception of a data set is raised as it is")
EPOCHS_DATASET = Private(f"{EPOCHS}._distributed_dataset", "a worker's part of the data")
NUM_BATCHES = Private("keras.src.trainers.epoch_iterator:EpochIterator._num_batches", "the steps of an epoch")
ADAPTED_DATASET, ADAPTED_ARRAYS, ADAPTED_ROWS, FIRST_BATCHES = _privates(
    _ADAPTERS,
    "tf_dataset_adapter:TFDatasetAdapter._dataset "
    "array_data_adapter:ArrayDataAdapter._inputs "
    "array_data_adapter:ArrayDataAdapter._num_samples "
    "generator_data_adapter:GeneratorDataAdapter._first_batches",
    "workers compare their data, and a bad row is named",
)
ITEMS_ITERATOR = Private(
    f"{_ADAPTERS}py_dataset_adapter:PyDatasetAdapter._get_iterator",
    "an exception of a PyDataset is raised as it is",
)
OPTIONAL_SPEC = Private(
    f"{_DATA}optional_ops:_OptionalImpl._element_spec",
    "the initial value of a loop gets the type of what the loop returns",
)
OPTIONAL_ELEMENT = Private(f"{_DATA}optional_ops:OptionalSpec._element_spec", "the type of an absent value")
INPUTS, FUNCTIONS, FLAT_STRUCTURE, VARIANT, METADATA = _privates(
    f"{_DATA}dataset_ops:DatasetV2.",
    "_inputs _functions _flat_structure _variant_tensor _metadata",
    "the steps of a pipeline are read",
)
VARIANT_DATASET = Private(f"{_DATA}dataset_ops:_VariantDataset", INPUTS.why)
BATCH_SIZE, DROP_REMAINDER = _privates(
    f"{_DATA}batch_op:_BatchDataset.", "_batch_size _drop_remainder", INPUTS.why
)
REBATCH_SIZES = Private(f"{_DATA}rebatch_op:_RebatchDataset._batch_sizes", INPUTS.why)
MAP_FUNCTION = Private(f"{_DATA}map_op:_MapDataset._map_func", INPUTS.why)
TRACED = Private(f"{_DATA}structured_function:StructuredFunctionWrapper._func", INPUTS.why)
CACHE_FILE = Private(f"{_DATA}cache_op:CacheDataset._filename", INPUTS.why)
ZIPPED = Private(f"{_DATA}zip_op:_ZipDataset._datasets", INPUTS.why)
TENSORS = Private(f"{_DATA}from_tensor_slices_op:_TensorSliceDataset._tensors", INPUTS.why)
REPEAT_COUNT = Private(f"{_DATA}repeat_op:_RepeatDataset._count", INPUTS.why)
NUM_SHARDS, SHARD_INDEX = _privates(f"{_DATA}shard_op:_ShardDataset.", "_num_shards _index", INPUTS.why)
BUFFER_SIZE, SHUFFLE_SEED, SHUFFLE_SEED2, RESHUFFLES = _privates(
    f"{_DATA}shuffle_op:_ShuffleDataset.",
    "_buffer_size _seed _seed2 _reshuffle_each_iteration",
    INPUTS.why,
)
SHUFFLE_OPERATIONS = Seam(f"{_DATA}shuffle_op:gen_dataset_ops", "two data sets share the order of a shuffle")
SHUFFLE_DATASET = Seam(f"{_OPS}gen_dataset_ops:shuffle_dataset_v3", SHUFFLE_OPERATIONS.why)
PARALLEL_STEPS = [
    Seam(
        f"{_DATA}{place}.__init__",
        "parallel steps keep the order of rows, of which each worker takes its own",
        takes=("deterministic",),
    )
    for place in (
        "map_op:_ParallelMapDataset",
        "batch_op:_ParallelBatchDataset",
        "interleave_op:_ParallelInterleaveDataset",
    )
]
LEGACY_INTERLEAVE = Seam(
    f"{_DATA}readers:ParallelInterleaveDataset.__init__", PARALLEL_STEPS[0].why, takes=("sloppy",)
)
FILE_NAMES, COMPRESSION = _privates(
    f"{_DATA}readers:TFRecordDatasetV2.", "_filenames _compression_type", "a bad file is named"
)
DATA_PACKAGE = Seam("tensorflow.python:data", "the classes of a pipeline's steps are in this package")
NEST, STRUCTURE = _seams("tensorflow.python.data.util:", "nest structure", INPUTS.why)
OP_DEFINITIONS = Seam("tensorflow.python.framework:op_def_registry", "whether an operation has a state")
TFRECORD_READER = Seam(
    "tensorflow.python.lib.io.tf_record:tf_record_random_reader",
    "records of a TFRecord file are read in any order",
    essential=False,
)

# Keras on JAX.

JAX_STATE = Seam(
    "jax._src.distributed:global_state", "this process's place among those that JAX has connected"
)
KERAS_GLOBAL = Seam(
    "keras.src.backend.common.global_state:get_global_attribute",
    "the distribution, without making one, and the seed that the program has set",
    backend="jax",
)
TREE = Seam("keras.src:tree", "batches and predictions of any structure", backend="jax")
DATASET_INIT = Seam(
    f"{_ADAPTERS}tf_dataset_adapter:TFDatasetAdapter.__init__",
    "each process takes its rows of a batch",
    takes=("dataset", "class_weight", "distribution"),
    backend="jax",
)
DATASET_BATCHES = Seam(
    f"{_ADAPTERS}tf_dataset_adapter:TFDatasetAdapter.get_jax_iterator", DATASET_INIT.why, backend="jax"
)
_DATA_PARALLEL = "keras.src.distribution.distribution_lib:DataParallel."
SEVERAL_PROCESSES = Private(f"{_DATA_PARALLEL}_is_multi_process", DATASET_INIT.why, backend="jax")
AUTO_SHARD = Private(f"{_DATA_PARALLEL}_auto_shard_dataset", DATASET_INIT.why, backend="jax")
ARRAY_OF_VARIABLE = Seam(
    "keras.src.backend:Variable.__array__", "a weight that is divided among processes is read", backend="jax"
)
JAX_INITIALIZE = Private(
    "keras.src.backend:Variable._initialize", "processes compare the shapes of a new weight", backend="jax"
)
_JAX_TRAINER = "keras.src.backend.jax.trainer:"
JAX_MAKE = _seams(
    f"{_JAX_TRAINER}JAXTrainer.",
    "make_train_function make_test_function make_predict_function",
    "processes compare their calls before the first step",
    takes=("force",),
)
JAX_EVALUATION = Private(f"{_JAX_TRAINER}JAXTrainer._eval_epoch_iterator", "the data of a validation in fit")
_JAX_EPOCHS = f"{_JAX_TRAINER}JAXEpochIterator."
JAX_EPOCHS_INIT = Seam(f"{_JAX_EPOCHS}__init__", "the data of a call are compared")
JAX_STEPS = Private(f"{_JAX_EPOCHS}_enumerate_iterator", "which step runs")
JAX_BATCHES = Private(
    f"{_JAX_EPOCHS}_get_iterator",
    "a process that waits for the others in a step is seen, and a bad row is named",
)
JAX_CATCH_STOP = Seam(f"{_JAX_EPOCHS}catch_stop_iteration", "processes compare where their data end")

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
_FILES = "tensorflow.python.lib.io.file_io:"
MATCHING_FILES = Seam(f"{_FILES}get_matching_files", DELETE_CHECKPOINT.why, essential=False)
DELETE_FILE = Seam(f"{_FILES}delete_file", DELETE_CHECKPOINT.why, essential=False)
NOT_FOUND = Seam(f"{_FRAMEWORK}errors:NotFoundError", DELETE_CHECKPOINT.why, essential=False)
SAVE_SAVED_MODEL = Seam("tensorflow.python.saved_model.save:save", "only the chief's files are kept")
LOAD_SAVED_MODEL = Seam("tensorflow.python.saved_model.load:load", "other workers read their own copies")
WRITERS = _seams(
    "keras.src.",
    "saving.saving_lib:save_model saving.saving_lib:save_weights_only "
    "legacy.saving.legacy_h5_format:save_model_to_hdf5",
    SAVE_SAVED_MODEL.why,
)
EXPORTED_WRITERS = _seams(
    "keras.src.",
    "saving.saving_api:save_model saving.saving_api:save_weights utils.model_visualization:plot_model",
    SAVE_SAVED_MODEL.why,
)
READERS = _seams(
    "keras.src.",
    "saving.saving_api:load_model saving.saving_api:load_weights "
    "saving.saving_lib:load_model saving.saving_lib:load_weights_only "
    "legacy.saving.legacy_h5_format:load_model_from_hdf5",
    LOAD_SAVED_MODEL.why,
)
MODEL_SAVE, MODEL_SAVE_WEIGHTS, MODEL_EXPORT = _seams(
    "keras:Model.", "save save_weights export", SAVE_SAVED_MODEL.why, takes=("filepath",)
)
TENSORBOARD_MODEL, CSV_MODEL, BACKUP_MODEL = _seams(
    "keras:callbacks.",
    "TensorBoard.set_model CSVLogger.set_model BackupAndRestore.set_model",
    SAVE_SAVED_MODEL.why,
)
BACKUP_RESTORE = Seam(
    "keras:callbacks.BackupAndRestore.on_train_begin",
    "all workers restore the chief's backup",
    takes=("logs",),
)
EXPORT_ARCHIVE, TRACK, WRITE_OUT = _seams(
    "keras.src.export.saved_model:",
    "ExportArchive ExportArchive.track ExportArchive.write_out",
    SAVE_SAVED_MODEL.why,
)
GET_FILE, URLRETRIEVE, EXTRACT_ARCHIVE = (
    Seam(
        f"keras.src.utils.file_utils:{name}",
        "a file is downloaded once on each machine, and is whole when it has its name",
        essential=False,
    )
    for name in ("get_file", "urlretrieve", "extract_archive")
)
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
