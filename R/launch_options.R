# Made by `make options` from python/tfmuster/options/: change a setting there.

# The kind of value that each setting takes, by the names of argument_kinds.
launch_arguments <- c(
  workers = "count", max_restarts = "number", seed = "seed", name = "name", run_dir = "name", quiet = "flag",
  wait = "flag", ps = "number", chief = "flag", evaluator = "flag", strategy = "name", distribute = "flag",
  scale_batch = "flag", independent = "flag", allow_nested = "flag", env = "variables",
  gpus_per_worker = "share", only_chief = "flag", all_output = "flag", keras_compat = "flag",
  verify = "verification", start_timeout = "seconds", stall_timeout = "limit", grace = "seconds",
  notice_command = "name", isolated = "flag", warm = "flag", oversubscribe = "flag", hosts = "strings",
  copy = "flag", files = "strings", remote_python = "name", trust_hosts = "flag", fetch_limit = "number",
  hosts_from = "name", min_workers = "count", rejoin_timeout = "limit", grow = "seconds",
  backend_options = "strings", master = "name", requeue = "flag", packages = "strings"
)

#' @param isolated On this machine: give the workers a network of their own, in which they reach only each
#'   other. Nothing else reaches them, and programs that download data fail. Linux only. Default: use that of
#'   the machine.
#' @param warm On this machine or over ssh, with `max_restarts`: keep a process ready for each worker, which
#'   has TensorFlow imported, so that a restart takes half the time. It needs about 500 MB for each worker.
#'   Default: start new ones.
#' @param oversubscribe On this machine or over ssh: start more than four processes for a core of a machine,
#'   or more than its free memory holds. Default: refuse that.
#' @rdname on_local
#' @export
on_local <- function(isolated = FALSE, warm = FALSE, oversubscribe = FALSE) {
  new_on("local", list(isolated = isolated, warm = warm, oversubscribe = oversubscribe))
}

#' @param hosts Run on these machines, by ssh or mpirun. Write each with its number of tasks, such as
#'   `node1:2`. Your `ssh` must reach them without a password, and they need the same version of tfmuster.
#'   Default: on this one.
#' @param copy Send the script to the hosts. Default: use the one there, at the same path.
#' @param files Send files and folders with the script. They keep their path relative to the working
#'   directory. Each worker then runs in a temporary folder, which is removed afterwards. What the chief's
#'   program writes there is copied to `files/` in the run directory, up to `fetch_limit` MB. Default: none.
#' @param remote_python Use this Python with tfmuster on the hosts. Default: the path of this one.
#' @param trust_hosts Functions only: let workers on other machines return objects of any kind. Reading them
#'   lets every host of the job run code in this session, so set this only if you trust all of them. By
#'   default, such workers return data: vectors, factors, data frames, matrices, lists of them, and models.
#'   Workers on this machine may return objects of any kind.
#' @param fetch_limit Send at most this many MB of what the chief's program writes back to the run directory,
#'   with `files` or `copy`. Larger files stay on the host, and are named. Default: 2048.
#' @param hosts_from Run on the machines that this shell command prints, a line HOST:SLOTS each. Each restart
#'   runs it again. Default: none.
#' @param min_workers With hosts and `max_restarts`: continue with N or more workers if hosts are lost. They
#'   make the same updates, with the same global batches. The next restart takes all hosts that are back.
#'   Default: all.
#' @param rejoin_timeout With hosts and `max_restarts`: wait this long at a restart for a lost host to come
#'   back. Default: 120, or 30 with `min_workers`.
#' @param grow With `min_workers`: look this often for hosts that are back or new, and continue with them from
#'   a new checkpoint, with at most `workers` workers. Default: never.
#' @rdname on_local
#' @export
on_ssh <- function(hosts = NULL, copy = FALSE, files = character(), remote_python = NULL, trust_hosts = FALSE,
                   fetch_limit = 2048, warm = FALSE, oversubscribe = FALSE, hosts_from = NULL,
                   min_workers = NULL, rejoin_timeout = NULL, grow = NULL) {
  new_on("ssh", list(
    hosts = hosts, copy = copy, files = files, remote_python = remote_python, trust_hosts = trust_hosts,
    fetch_limit = fetch_limit, warm = warm, oversubscribe = oversubscribe, hosts_from = hosts_from,
    min_workers = min_workers, rejoin_timeout = rejoin_timeout, grow = grow
  ))
}

#' @param master Use this Spark master, such as spark://node1:7077 or local[4]. Default: that of Spark.
#' @param ... Options of the program that starts the workers, as strings: for sbatch `"--partition=gpu"`, for
#'   mpirun `"--map-by node"`, for Spark `"spark.executor.memory=4g"`.
#' @param spark Use this session of pyspark, in place of a master. Default: make one.
#' @rdname on_local
#' @export
on_spark <- function(master = NULL, ..., copy = FALSE, files = character(), remote_python = NULL,
                     trust_hosts = FALSE, fetch_limit = 2048, spark = NULL) {
  new_on("spark", list(
    master = master, backend_options = options_of(...), copy = copy, files = files,
    remote_python = remote_python, trust_hosts = trust_hosts, fetch_limit = fetch_limit, spark = spark
  ))
}

#' @param requeue Slurm: write a checkpoint before the time limit, requeue the job, and resume it. The
#'   checkpoint is written two minutes before the limit. After preemption or a lost node, the job resumes from
#'   the newest checkpoint. Default: do not.
#' @rdname on_local
#' @export
on_slurm <- function(..., copy = FALSE, files = character(), remote_python = NULL, trust_hosts = FALSE,
                     fetch_limit = 2048, requeue = FALSE) {
  new_on("slurm", list(
    backend_options = options_of(...), copy = copy, files = files, remote_python = remote_python,
    trust_hosts = trust_hosts, fetch_limit = fetch_limit, requeue = requeue
  ))
}

#' @rdname on_local
#' @export
on_sge <- function(..., copy = FALSE, files = character(), remote_python = NULL, trust_hosts = FALSE,
                   fetch_limit = 2048) {
  new_on("sge", list(
    backend_options = options_of(...), copy = copy, files = files, remote_python = remote_python,
    trust_hosts = trust_hosts, fetch_limit = fetch_limit
  ))
}

#' @rdname on_local
#' @export
on_pbs <- function(..., copy = FALSE, files = character(), remote_python = NULL, trust_hosts = FALSE,
                   fetch_limit = 2048) {
  new_on("pbs", list(
    backend_options = options_of(...), copy = copy, files = files, remote_python = remote_python,
    trust_hosts = trust_hosts, fetch_limit = fetch_limit
  ))
}

#' @rdname on_local
#' @export
on_lsf <- function(..., copy = FALSE, files = character(), remote_python = NULL, trust_hosts = FALSE,
                   fetch_limit = 2048) {
  new_on("lsf", list(
    backend_options = options_of(...), copy = copy, files = files, remote_python = remote_python,
    trust_hosts = trust_hosts, fetch_limit = fetch_limit
  ))
}

#' @rdname on_local
#' @export
on_mpi <- function(hosts = NULL, ..., copy = FALSE, files = character(), remote_python = NULL,
                   trust_hosts = FALSE, fetch_limit = 2048) {
  new_on("mpi", list(
    hosts = hosts, backend_options = options_of(...), copy = copy, files = files,
    remote_python = remote_python, trust_hosts = trust_hosts, fetch_limit = fetch_limit
  ))
}

#' @param ps Start this many parameter servers, which end with the workers. Default: 0.
#' @param chief Start a chief besides the workers. Default: worker 0 is the chief.
#' @param evaluator Start an evaluator, which ends with the workers. Default: start none.
#' @param strategy Functions only: the name of the strategy that the function gets as its argument `strategy`.
#' @param globals Functions only: `TRUE` finds and sends the objects that the function uses. Names of more
#'   objects, or a named list of them, are sent in addition; `FALSE` sends none.
#' @param packages Functions only: packages to attach in addition to those found.
#' @param distribute Train a program without a strategy on all workers, with its batch as the global batch. It
#'   makes the same updates as in one process. Default: refuse it.
#' @param scale_batch With `distribute`: multiply the batch size of fit() by the number of workers. Default:
#'   keep it.
#' @param independent Let each worker train a model of its own. By default, such a worker fails with a
#'   strategy error (reason `not-distributed`). Default: refuse that.
#' @param allow_nested Let a worker of another job launch this one. A program that launches itself would do so
#'   without end. The workers of the nested job can't launch another one. Default: refuse that.
#' @param env Set environment variables for every worker. Default: none.
#' @param gpus_per_worker Show each worker this many GPUs; 0 hides all. Default: 1 if there are as many GPUs
#'   as workers, else all.
#' @param only_chief Show only the output of the chief. Default: of all workers.
#' @param all_output Show each line of each worker. A line that only some workers print within a second is
#'   shown with their names. Default: show lines that all workers print alike once.
#' @param keras_compat Patch Keras 3, so that it works on several workers. Default: patch it.
#' @param verify Compare the first step with that of one process: auto, if the program has code of its own,
#'   such as a layer or a loss; always; never. A job whose first step differs ends, and says what differs.
#'   Default: TFMUSTER_VERIFY, else auto.
#' @param start_timeout Wait this long for all tasks to arrive. Default: TFMUSTER_START_TIMEOUT, else 60.
#' @param stall_timeout End the job if workers wait this long for one that makes no progress; 0: never. The
#'   error names the worker that they wait for. Default: TFMUSTER_STALL_TIMEOUT, else 300.
#' @param grace Let workers take this long to write a checkpoint after a shutdown signal. After that time, the
#'   job ends without a checkpoint. See [callback_checkpoint()]. Default: TFMUSTER_GRACE, else 30.
#' @param notice_command Write a checkpoint and end the job when this shell command, run every 5 s, succeeds
#'   on a worker's machine, because its spot instance is about to be reclaimed. Workers run it during `fit`
#'   with checkpoints. Default: none.
#' @section What several workers change:
#' The weights, losses and metrics are those of one process, but for the order of additions: at most 1e-5
#' after some steps of a smooth network. The first step is proven. These differ:
#'
#' * `strategy(batch_norm = "local")`: BatchNormalization normalizes with the rows of the worker. By default
#'   it takes those of all workers, as one process does.
#' * the root, or another function, of a mean of rows in your own `train_step()`: It is the mean of the
#'   workers' functions. The same function in `compile(loss = ...)` is exact.
#' * augmentation that mixes rows, such as `MixUp`: Each worker mixes its own rows.
#' * `RandomElasticTransform` with a smaller last batch: The displacements are others: Keras draws one for
#'   each row only if it knows their number while it traces. `drop_remainder = TRUE` makes both equal.
#' * `AugMix`: Keras chooses its operations by Python's `random` while it traces a step, and several workers
#'   trace equally, but more often.
#' * random numbers of `tf$random` and `tf$nn$dropout`: Each worker has a seed of its own. Those of
#'   `keras$random` and of Keras's layers, such as dropout masks, are those of one process.
#' * dropout in a loop of your own, without `fit()`: It is that of one process if the workers have the same
#'   number of rows. In a smaller last batch some masks occur twice.
#' * `LossScaleOptimizer`, so `mixed_float16`: The gradient of a part of the rows exceeds the range of float16
#'   later. One process may skip a step that several workers don't, until the scale is low enough.
#' * a data set of unknown length: In one process, Keras counts one step of the optimizer more at the end of
#'   each epoch, and random layers draw once more. `assert_cardinality()` makes both equal.
#' * `ScheduleFreeAdamW` that `fit()` builds: Keras loses its copy of the first weights in one process.
#'   `optimizer$build(model$trainable_variables)` before `fit()` makes both equal.
#' @rdname launch_control
#' @export
launch_control <- function(ps = 0, chief = FALSE, evaluator = FALSE, strategy = "multi_worker_mirrored",
                           globals = TRUE, packages = NULL, distribute = FALSE, scale_batch = FALSE,
                           independent = FALSE, allow_nested = FALSE, env = character(),
                           gpus_per_worker = NULL, only_chief = FALSE, all_output = FALSE,
                           keras_compat = TRUE, verify = NULL, start_timeout = NULL, stall_timeout = NULL,
                           grace = NULL, notice_command = NULL) {
  settings <- mget(names(formals(launch_control)))
  new_control(settings)
}
