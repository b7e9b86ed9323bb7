#' Create a distribution strategy that works with Keras 3
#'
#' Create it before anything else uses TensorFlow, such as a model or a tensor. `library(keras3)` may come
#' before it, if TensorFlow is not imported yet.
#'
#' When tfmuster is loaded and TF_CONFIG is set, TensorFlow's own
#' `tf$distribute$MultiWorkerMirroredStrategy()` joins the cluster in the same way.
#'
#' With `"parameter_server"`, only the task that coordinates (the chief, or worker 0) gets a strategy, for
#' [ps_fit()]. In all other tasks this call serves until the job ends, and then ends the process.
#'
#' @param name `"default"` (no distribution), `"one_device"`, `"mirrored"` (the devices of this machine),
#'   `"central_storage"`, `"multi_worker_mirrored"` (every worker of the cluster), `"parameter_server"` or
#'   `"tpu"`.
#' @param devices Names of devices, for example `c("CPU:0", "CPU:1")`. Default: all GPUs, or the CPU.
#' @param replicas Number of replicas, on GPUs or otherwise on logical CPUs, to try `mirrored` and
#'   `central_storage` without GPUs.
#' @param communication How `multi_worker_mirrored` sums gradients: `"auto"` (directly between CPUs, otherwise
#'   as TensorFlow chooses); `"tcp"` (the same without reading the memory of other workers of the machine);
#'   `"tensorflow"` (always as TensorFlow chooses); `"ring"` (TensorFlow's ring over
#'   gRPC); or `"nccl"` (NVIDIA's NCCL). With `"auto"`, the environment variable
#'   `TFMUSTER_COMMUNICATION` counts.
#' @param keras_compat `FALSE` does not patch Keras: its `fit()` then fails under `multi_worker_mirrored`.
#' @param start_timeout Seconds to wait for the other tasks. Default: the environment variable
#'   `TFMUSTER_START_TIMEOUT`, else 60.
#' @param tpu Name or address of a TPU. Default: TensorFlow looks for a local one.
#' @param min_shard_bytes For `parameter_server`: minimum size, in bytes, of the pieces that a weight is split
#'   into across parameter servers. Default: 262,144.
#' @param gradient_dtype For `multi_worker_mirrored`: data type of the gradients that workers send each other.
#'   `"bfloat16"` and `"float16"` halve the bytes of each step; sums are computed in float32. Default: the
#'   environment variable `TFMUSTER_GRADIENT_DTYPE`, else `"float32"`.
#' @param batch_norm For `multi_worker_mirrored`: with whose rows `layer_batch_normalization()` normalizes in
#'   `fit()`. `"synchronized"`: with those of all workers, as one process does. `"local"`: with those of its
#'   worker. Default: the environment variable `TFMUSTER_BATCH_NORM`, else `"synchronized"`.
#' @return A Python object of TensorFlow's class, such as
#'   `tensorflow.python.distribute.collective_all_reduce_strategy.CollectiveAllReduceStrategyV1`. Build and
#'   compile the model in `with(strategy$scope(), {...})`. A process has one `multi_worker_mirrored`: further
#'   calls with the same arguments return it.
#' @section Errors: `tfmuster_error_strategy` with the fields `strategy` and `reason`: TensorFlow has already
#'   started, TF_CONFIG is not set, the process has a `multi_worker_mirrored` of another cluster, or a device
#'   or TPU does not exist. `tfmuster_error_cluster`: TF_CONFIG is invalid. `tfmuster_error_rendezvous`: a
#'   task did not join in time; the error names it.
#' @export
#' @examplesIf tfmuster_available()
#' central <- strategy("central_storage")
#' with(central$scope(), {
#'   model <- mnist_model("mlp")
#' })
strategy <- function(name = "default", devices = NULL, replicas = NULL, communication = "auto",
                     keras_compat = TRUE, start_timeout = NULL, tpu = NULL, min_shard_bytes = NULL,
                     gradient_dtype = NULL, batch_norm = NULL) {
  check_own(
    name = "string", replicas = "count", communication = "string", keras_compat = "flag",
    start_timeout = "seconds", tpu = "name", min_shard_bytes = "share", gradient_dtype = "name",
    batch_norm = "name", kind = "strategy"
  )
  share_variables()
  say_how_it_ends()
  run_python(
    "strategy", name,
    devices = if (!is.null(devices)) as.list(devices), replicas = as_whole(replicas),
    communication = communication, keras_compat = keras_compat,
    start_timeout = start_timeout, tpu = tpu, min_shard_bytes = as_whole(min_shard_bytes),
    gradient_dtype = gradient_dtype, batch_norm = batch_norm
  )
}
