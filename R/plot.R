#' Plot a training history
#'
#' One panel for each metric, with the training and the validation curve. ggplot2 draws it when it is
#' installed, base graphics otherwise.
#'
#' @param x A history: the result of [train_mnist()], its field `history`, or what a Keras model's `fit()`
#'   returned in Python.
#' @param engine `"ggplot2"` or `"base"`; `NULL` takes ggplot2 when it is installed.
#' @param ... Not used.
#' @return A ggplot, or `x` invisibly from base graphics.
#' @export
#' @examples
#' history <- data.frame(
#'   epoch = rep(1:3, 2), metric = rep(c("loss", "accuracy"), each = 3),
#'   value = c(2.1, 1.4, 0.9, 0.3, 0.6, 0.8), data = "training"
#' )
#' class(history) <- c("tfmuster_history", class(history))
#' plot(history)
plot.tfmuster_history <- function(x, engine = NULL, ...) {
  engine <- engine %||% if (rlang::is_installed("ggplot2")) "ggplot2" else "base"
  engine <- rlang::arg_match(engine, c("ggplot2", "base"))
  if (engine == "base") {
    plot_base(x)
    return(invisible(x))
  }
  rlang::check_installed("ggplot2")
  ggplot2::ggplot(x, ggplot2::aes(.data$epoch, .data$value, colour = .data$data, shape = .data$data)) +
    ggplot2::geom_line() +
    ggplot2::geom_point() +
    ggplot2::facet_wrap(
      ggplot2::vars(factor(.data$metric, unique(.data$metric))),
      ncol = 1, scales = "free_y"
    ) +
    ggplot2::scale_colour_manual(values = curve_colours, name = NULL) +
    ggplot2::scale_shape_manual(values = curve_shapes, name = NULL) +
    ggplot2::scale_x_continuous(breaks = function(limits) unique(round(pretty(limits)))) +
    ggplot2::labs(x = "epoch", y = NULL)
}

#' @rdname plot.tfmuster_history
#' @export
plot.tfmuster_training <- function(x, engine = NULL, ...) {
  plot(x$history, engine = engine, ...)
}

#' @rdname plot.tfmuster_history
#' @exportS3Method plot keras.src.callbacks.history.History
plot.keras.src.callbacks.history.History <- function(x, engine = NULL, ...) { # nolint
  plot(as_history(x$history), engine = engine, ...)
}

# Okabe and Ito's colours, told apart with every kind of colour vision; shapes do it without colour.
curve_colours <- c(training = "#0072B2", validation = "#D55E00")
curve_shapes <- c(training = 16, validation = 17)

plot_base <- function(x) {
  metrics <- unique(x$metric)
  old <- graphics::par(mfrow = c(length(metrics), 1), mar = c(4, 4, 2, 1))
  on.exit(graphics::par(old))
  for (metric in metrics) {
    rows <- x[x$metric == metric, ]
    graphics::plot(rows$epoch, rows$value, type = "n", xlab = "epoch", ylab = metric)
    for (data in unique(rows$data)) {
      curve <- rows[rows$data == data, ]
      graphics::lines(curve$epoch, curve$value, col = curve_colours[[data]])
      graphics::points(curve$epoch, curve$value, col = curve_colours[[data]], pch = curve_shapes[[data]])
    }
    shown <- unique(rows$data)
    graphics::legend(
      "right", shown,
      col = curve_colours[shown], pch = curve_shapes[shown], lty = 1, bty = "n"
    )
  }
}
