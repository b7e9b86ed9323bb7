#' Share values between the workers of a job
#'
#' Each worker runs your program. What one of them draws, asks for or finds out by itself, such as the
#' hyper-parameters of a trial or the time, may differ from what the others have. `broadcast()` returns the
#' chief's value on every worker, and `gather()` the values of all workers.
#'
#' All workers must call these functions equally often and in the same order. The first call waits for all
#' workers, as [strategy()] does. Values travel through the chief, so they should be small, and in a form that
#' runs nothing when it is read.
#'
#' @param value A vector, factor, array, data frame, or a list of them. `broadcast()` uses only the chief's.
#' @return `broadcast()`: the chief's value. `gather()`: a list with one value for each worker that trains,
#'   the chief's first. In one process, and with parameter servers, `value`, and a list of it.
#' @section Errors: `tfmuster_error_data` with the field `reason`: the value is no data (`not-plain`), a
#'   worker makes another call or has finished its program (`workers-differ`), or the workers are independent
#'   (`independent`). `tfmuster_error_rendezvous`: not all workers arrived in time.
#' @export
#' @examplesIf tfmuster_available()
#' broadcast(0.01)
#' gather(c(rows = 512))
#' \dontrun{
#' # In a program that several workers run:
#' rate <- broadcast(10^runif(1, -4, -1))
#' rows <- gather(nrow(part))
#' }
broadcast <- function(value = NULL) {
  shared_values("broadcast", value)[[1]]
}

#' @rdname broadcast
#' @export
gather <- function(value) {
  check_own(value = "any")
  shared_values("gather", value)
}

#' Get the rows of all workers in a step of fit()
#'
#' It is for a loss that compares the rows of a batch with each other, such as one with in-batch negatives, in
#' a `train_step()`, a `compute_loss()`, or a layer's `add_loss()`. Each worker has a part of the batch, and
#' `all_rows()` gives it the rest. A loss that is computed from all rows is that of one process, and so are
#' its gradients. Metrics add up the workers' rows, so give them the worker's own. All workers must call it
#' equally often and in the same order.
#'
#' @param tensor Something of this worker's rows, such as embeddings or labels: a tensor of any type and of
#'   shape (rows, ...).
#' @return A tensor of shape (rows of the global batch, ...), in the order of the batch. Outside of a step and
#'   in one process, `tensor` itself.
#' @section Errors: `tfmuster_error_strategy`: the model has `run_eagerly = TRUE` (reason `run-eagerly`).
#' @export
#' @examplesIf tfmuster_available()
#' all_rows(matrix(1:4, 2)) # outside of a step, there are no others
#' \dontrun{
#' # In the call of a layer:
#' covariance <- function(x) {
#'   rows <- all_rows(x)
#'   centered <- rows - op_mean(rows, axis = 1)
#'   op_matmul(op_transpose(centered), centered) / op_cast(op_shape(rows)[[1]], "float32")
#' }
#' }
all_rows <- function(tensor) {
  check_own(tensor = "any")
  if (!inherits(tensor, "python.builtin.object")) {
    return(tensor)
  }
  run_python("all_rows", tensor)
}

#' Run code on one worker of each machine first
#'
#' `chief_first()` is for what one worker prepares and the others then find: a download, a folder, a file of
#' unpacked or converted data. The first worker of each machine runs the code, and the others run it
#' afterwards. All workers must reach the call. The first worker of a machine is the chief on its own machine,
#' else the one with the lowest index.
#'
#' @param expr The code.
#' @return The value of the code.
#' @inheritSection broadcast Errors
#' @export
#' @examplesIf tfmuster_available()
#' folder <- file.path(tempdir(), "prepared")
#' chief_first(if (!dir.exists(folder)) dir.create(folder))
#' \dontrun{
#' # In a program that several workers run:
#' chief_first({
#'   if (!file.exists("data.csv")) download.file(url, "data.csv")
#' })
#' }
chief_first <- function(expr) {
  if (missing(expr)) refuse_argument("expr", "an expression", NULL, "error")
  first <- run_python("begin_chief_first")
  if (first) on.exit(run_python("end_chief_first"))
  expr
}

shared_values <- function(name, value, call = rlang::caller_env()) {
  folder <- tempfile("values-")
  dir.create(folder)
  on.exit(unlink(folder, recursive = TRUE))
  file <- file.path(folder, "own.rds")
  # The older format has no compact vectors, whose reading makes R look for a package.
  saveRDS(value, file, compress = FALSE, version = 2)
  lapply(run_python("share_file", name, file, call = call), readRDS)
}
