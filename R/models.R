#' Create a model for handwritten digits
#'
#' Creates one of four compiled Keras models, with the optimizer and loss of a recipe. Under a strategy, call
#' it in `with(strategy$scope(), {...})`.
#'
#' @param name `"cnn"` (a convolution and two dense layers), `"deep_cnn"` (two convolutions), `"mlp"` (two
#'   dense layers with dropout) or `"softmax"` (softmax regression).
#' @param optimizer A Keras name such as `"adam"`, or a Keras optimizer. Default: the recipe's optimizer.
#' @param learning_rate Learning rate. Default: the recipe's for its own optimizer, Keras's for another one.
#' @param dropout `mlp` only: `FALSE` for no dropout, or the two rates.
#' @param seed Seed of initial weights and dropout; with `NULL` they are random.
#' @param initial_weights `softmax` only: `"random_normal"` or `"zeros"`. Default: the recipe's.
#' @param gradient_accumulation_steps Update the weights once in this many steps.
#' @param steps_per_execution Steps that Keras runs in one call of its training function. Default: chosen by
#'   speed with several workers, if no callback needs single batches; otherwise 1.
#' @param jit_compile `TRUE` compiles the training step with XLA. On CPUs, most models are slower with it.
#' @param recipe The defaults of the other arguments: `"quick"` soon trains to a good result, `"document"` has
#'   the numbers of the published example of the model.
#' @return A Keras model (a Python object). Input: digits as bytes, of shape (batch, 28, 28), 0 to 255; the
#'   model scales them itself. Output: shape (batch, 10).
#' @section Errors: `tfmuster_error_model` with the field `reason`.
#' @export
#' @examplesIf tfmuster_available()
#' model <- mnist_model("softmax", seed = 1)
#' model$count_params()
mnist_model <- function(name = "cnn", optimizer = NULL, learning_rate = NULL, dropout = TRUE,
                        seed = NULL, initial_weights = NULL, gradient_accumulation_steps = NULL,
                        steps_per_execution = NULL, jit_compile = FALSE, recipe = "quick") {
  check_own(
    name = "string", optimizer = "name", learning_rate = "rate?", dropout = "flag", seed = "seed",
    initial_weights = "name", gradient_accumulation_steps = "count", steps_per_execution = "count",
    jit_compile = "flag", recipe = "string", kind = "model"
  )
  run_python(
    "mnist_model", name,
    optimizer = optimizer, learning_rate = learning_rate, dropout = dropout, seed = as_whole(seed),
    initial_weights = initial_weights,
    gradient_accumulation_steps = as_whole(gradient_accumulation_steps),
    steps_per_execution = as_whole(steps_per_execution), jit_compile = jit_compile,
    recipe = recipe
  )
}
