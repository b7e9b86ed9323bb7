# Two workers that end at different times, or of which one fails in R.
# Usage: uneven.R [package]; with `package` the strategy is made by the R package.
if ("package" %in% commandArgs(TRUE)) {
  workers <- tfmuster::strategy("multi_worker_mirrored")
} else {
  workers <- reticulate::import("tensorflow")$distribute$MultiWorkerMirroredStrategy()
}
index <- workers$cluster_resolver$task_id
deeper <- function(n) lapply(n, deeper)
if (index == 1) {
  switch(Sys.getenv("TEST_FAIL"), stop = stop("planted in R"), overflow = deeper(1), quit = quit(status = 5))
}
# In Python, as training is: while R itself is busy, no thread of Python runs.
if (index == 0) reticulate::import("time")$sleep(7)
cat("end of worker", index, "\n")
