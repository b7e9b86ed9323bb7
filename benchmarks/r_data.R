# A data frame's way to the workers of launch(), against saveRDS() and readRDS().
#
# Usage: Rscript benchmarks/r_data.R [REPEATS] [ROWS] [COLUMNS]    needs the R package; 15, 1e5 and 50 by default
#
# "Sent" is what the session does with the arguments of a function (finding what it uses, writing, the SHA-256) and what
# each worker does (the SHA-256, reading). Both are compared with saveRDS() and readRDS(), in turns, by their time on the
# processor, which other programs disturb less; also without compression. Exits with 1 if the median of the ratios of a turn
# is above 1.2 for one of both.
arguments <- as.numeric(commandArgs(TRUE))
given <- function(at, default) if (length(arguments) >= at) arguments[at] else default
repeats <- given(1, 15)
frame <- as.data.frame(matrix(rnorm(given(2, 1e5) * given(3, 50)), ncol = given(3, 50)))
folder <- tempfile("data")
dir.create(file.path(folder, "call"), recursive = TRUE)
of_package <- function(name) get(name, asNamespace("tfmuster"))
put_call <- of_package("put_call")
read_call <- of_package("read_call")
seconds <- function(code) {
  gc()
  sum(system.time(code)[c("user.self", "sys.self")])
}
sent <- function() {
  digest <- put_call(
    folder, function(data) nrow(data), list(frame), "fn",
    strategy = "multi_worker_mirrored", globals = TRUE, packages = NULL
  )
  read_call(of_package("call_file")(folder), digest)
}
by_r <- function(compress) {
  file <- file.path(folder, "data.rds")
  saveRDS(frame, file, compress = compress)
  readRDS(file)
}
stopifnot(identical(sent()$args[[1]], frame))
turns <- data.frame(sent = numeric(), by_r = numeric(), plain = numeric())
for (i in seq_len(repeats)) turns[i, ] <- c(seconds(sent()), seconds(by_r(TRUE)), seconds(by_r(FALSE)))
shown <- vapply(turns, median, 0)
cat(sprintf(
  "%.0f MB: sent in %.2f s; saveRDS() and readRDS() %.2f s, without compression %.2f s (medians of %d, processor)\n",
  as.numeric(object.size(frame)) / 1e6, shown[["sent"]], shown[["by_r"]], shown[["plain"]], repeats
))
ratios <- c(median(turns$sent / turns$by_r), median(turns$sent / turns$plain))
cat(sprintf("ratios: %.2f, without compression %.2f\n", ratios[1], ratios[2]))
quit(status = as.integer(any(ratios > 1.2)))
