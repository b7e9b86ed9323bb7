#' Train on rows of files
#'
#' `file_batches()` makes an input pipeline for `fit()` from files, with the same global batches for every
#' number of workers. Each worker opens only the files, or the parts of them, that its own rows are in, and
#' every row counts once in an epoch. The other functions make readers: `tfrecord_rows()` for TFRecord
#' files; `csv_rows()` for CSV files with a line of names and with numbers; `parquet_rows()` for Parquet
#' files (Python package `pyarrow`); and `image_rows()` for a folder with one folder of images for each
#' class.
#'
#' @param files The files, or a pattern such as `"data/*.csv"`; for images, the folder. The same on every
#'   worker.
#' @param read What `tfrecord_rows()`, `csv_rows()`, `parquet_rows()` or `image_rows()` returns.
#' @param batch_size Rows of one step on all workers together.
#' @param seed Seed of the orders, the same on every worker.
#' @param shuffle Use a new order in each epoch, of chunks of the files and of the rows in them.
#' @param strategy Strategy whose number of replicas must divide the batch.
#' @param steps End after this many batches.
#' @param repeated Repeat without end, with a new order in each epoch. Use it for `fit(steps_per_epoch =
#'   data$steps)`. By default, each pass has the same order.
#' @param drop_remainder Drop the last, partial batch of each epoch.
#' @param first_epoch Number of the first epoch.
#' @param features A named list of features, as `tf$io$parse_example()` takes them.
#' @param label Name of the feature or column that is the label.
#' @param columns Names of the columns to learn from. Default: all others.
#' @param delimiter Character between values.
#' @param size Height and width of images, to which they are resized.
#' @param channels 3 for colors, 1 for gray.
#' @return `file_batches()`: a Python object, a `tf.data.Dataset`, with the number of all `rows` and of
#'   `steps` in an epoch. The others: a reader.
#' @section Errors: `tfmuster_error_data` with the fields `path`, `row` and `reason`: a file is missing,
#'   empty, or unlike the others, or a row can't be read.
#' @export
#' @examplesIf tfmuster_available()
#' rows <- data.frame(x = runif(100))
#' rows$y <- 3 * rows$x + 1
#' file <- tempfile(fileext = ".csv")
#' write.csv(rows, file, row.names = FALSE)
#' data <- file_batches(file, csv_rows("y"), batch_size = 20, seed = 1)
#' data$steps
#' keras <- reticulate::import("keras")
#' line <- keras$Sequential(list(keras$Input(reticulate::tuple(1L)), keras$layers$Dense(1L)))
#' compile(line, optimizer = keras$optimizers$Adam(0.1), loss = "mse")
#' fit(line, data, epochs = 20, verbose = FALSE)
#'
#' # Parquet, with the Python package pyarrow:
#' if (reticulate::py_module_available("pyarrow")) {
#'   file <- tempfile(fileext = ".parquet")
#'   pyarrow <- reticulate::import("pyarrow", convert = FALSE)
#'   columns <- reticulate::dict(x = rows$x, y = rows$y)
#'   reticulate::import("pyarrow.parquet")$write_table(pyarrow$table(columns), file)
#'   evaluate(line, file_batches(file, parquet_rows("y"), batch_size = 20, seed = 1))
#' }
#'
#' # TFRecord:
#' tf <- reticulate::import("tensorflow")
#' file <- tempfile(fileext = ".tfrecord")
#' writer <- tf$io$TFRecordWriter(file)
#' feature <- function(value) tf$train$Feature(float_list = tf$train$FloatList(value = list(value)))
#' for (i in seq_len(nrow(rows))) {
#'   features <- tf$train$Features(feature = list(x = feature(rows$x[i]), y = feature(rows$y[i])))
#'   writer$write(tf$train$Example(features = features)$SerializeToString())
#' }
#' writer$close()
#' number <- tf$io$FixedLenFeature(list(1L), tf$float32)
#' records <- tfrecord_rows(list(x = number, y = number), "y")
#' evaluate(line, file_batches(file, records, batch_size = 20, seed = 1))
#'
#' # A folder of images for each class:
#' folder <- tempfile("images")
#' for (class in c("dark", "light")) {
#'   dir.create(file.path(folder, class), recursive = TRUE)
#'   shade <- array(if (class == "dark") 40L else 200L, c(8, 8, 1))
#'   png <- tf$io$encode_png(tf$cast(shade, "uint8"))
#'   for (i in 1:10) tf$io$write_file(file.path(folder, class, paste0(i, ".png")), png)
#' }
#' data <- file_batches(folder, image_rows(c(8, 8), channels = 1), batch_size = 10, seed = 1)
#' shades <- keras$Sequential(list(
#'   keras$Input(reticulate::tuple(8L, 8L, 1L)), keras$layers$Rescaling(1 / 128, -1),
#'   keras$layers$Flatten(), keras$layers$Dense(2L)
#' ))
#' loss <- keras$losses$SparseCategoricalCrossentropy(from_logits = TRUE)
#' compile(shades, optimizer = "adam", loss = loss, metrics = "accuracy")
#' fit(shades, data, epochs = 10, verbose = FALSE)
file_batches <- function(files, read, batch_size, seed, shuffle = TRUE, strategy = NULL, steps = NULL,
                         repeated = FALSE, drop_remainder = FALSE, first_epoch = 0) {
  check_own(
    files = "paths", batch_size = "positive", seed = "number", shuffle = "flag", strategy = "strategy?",
    steps = "count", repeated = "flag", drop_remainder = "flag", first_epoch = "number", read = "reader",
    kind = "data"
  )
  paths <- path.expand(files)
  run_python(
    "file_batches", if (length(paths) == 1) paths else as.list(paths), read, as_whole(batch_size),
    seed = as_whole(seed), shuffle = shuffle, strategy = strategy, steps = as_whole(steps),
    repeated = repeated, drop_remainder = drop_remainder, first_epoch = as_whole(first_epoch)
  )
}

#' @rdname file_batches
#' @export
tfrecord_rows <- function(features, label = NULL) {
  check_own(features = "features", label = "name", kind = "data")
  run_python("tfrecord_rows", features, label = label)
}

#' @rdname file_batches
#' @export
csv_rows <- function(label = NULL, columns = NULL, delimiter = ",") {
  check_own(label = "name", columns = "strings", delimiter = "string", kind = "data")
  run_python("csv_rows", label, columns = as_names(columns), delimiter = delimiter)
}

#' @rdname file_batches
#' @export
parquet_rows <- function(label = NULL, columns = NULL) {
  check_own(label = "name", columns = "strings", kind = "data")
  run_python("parquet_rows", label, columns = as_names(columns))
}

#' @rdname file_batches
#' @export
image_rows <- function(size, channels = 3) {
  check_own(size = "size", channels = "positive", kind = "data")
  run_python("image_rows", as.list(as.integer(size)), channels = as_whole(channels))
}

as_names <- function(x) if (!is.null(x)) as.list(x)
