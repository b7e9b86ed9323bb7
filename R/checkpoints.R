#' Write checkpoints, and resume from them
#'
#' Makes a Keras callback: pass it to `model$fit(callbacks = list(...))` on every worker. The chief writes a
#' checkpoint after a number of steps or after each epoch. When `fit` starts again, it resumes from the newest
#' complete checkpoint, also in the middle of an epoch, at the same position in the data. If the data has a
#' seeded order, the final weights equal those of an uninterrupted run, bit for bit.
#'
#' While `fit` runs, SIGTERM or SIGUSR1 to any worker, and `run_stop(save = TRUE)`, shut all workers down. The
#' chief writes one more checkpoint after the same step on all of them. They exit with code 128 + the
#' signal. [run_resume()] resumes there. A second signal ends a worker at once.
#'
#' @param folder Folder of the checkpoints. Default: `checkpoints` in the run directory of the job, or in
#'   `TFMUSTER_CHECKPOINT_DIR` if that is set. Without a launcher, as under `mpirun ... tfmuster worker`, it
#'   is beside the script, and the same program continues from there. Further callbacks of the same program
#'   use `checkpoints-2` and so on, because each `fit` needs a folder of its own.
#' @param every Write after this many steps, after each `"epoch"`, or, with `NULL`, only on a
#'   shutdown signal.
#' @param keep Number of checkpoints to keep, at least 2, because the newest may be damaged.
#' @return A Python object, a Keras callback.
#' @section Errors: `tfmuster_error_checkpoint` with the fields `path` and `reason`: there is no folder and no
#'   job. Later, from `fit`: the disk is full, or the checkpoint belongs to another model, to a job of
#'   another name, to other data or another batch size, or to another version of TensorFlow.
#' @export
#' @examplesIf tfmuster_available()
#' folder <- tempfile("checkpoints")
#' digits <- synthetic(train = 300, test = 100)
#' callback <- callback_checkpoint(folder)
#' result <- train_mnist("softmax", dataset = digits, epochs = 2, callbacks = list(callback))
#' list.files(folder)
callback_checkpoint <- function(folder = NULL, every = "epoch", keep = 2) {
  check_own(folder = "name", every = "steps?", keep = "positive", kind = "checkpoint")
  run_python(
    "checkpoint_callback", as_path(folder),
    every = as_steps(every), keep = as_whole(keep)
  )
}

# A number of steps, the word "epoch" or NULL; the core raises an error for anything else.
as_steps <- function(x) if (is.character(x) || is.null(x)) x else as_whole(x)
