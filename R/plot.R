#' Plot training histories
#'
#' Draws one panel per metric, with the training and validation curves. Several runs, from [run_list()], share
#' the panels, each in its own color. Uses ggplot2 if it is installed, otherwise base graphics.
#'
#' @param x A history: the result of [train_mnist()], its field `history`, or the return value of a Keras
#'   model's `fit()` in Python; a run, from [launch()] or [run_open()], or the values of a function's run; or
#'   runs, from [run_list()].
#' @param engine `"ggplot2"` or `"base"`. Default: ggplot2 if it is installed.
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
  draw_curves(x, x, "data", curve_colours, engine)
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

#' @rdname plot.tfmuster_history
#' @export
plot.tfmuster_run <- function(x, engine = NULL, ...) {
  draw_curves(run_history(x), x, "data", curve_colours, engine, without_epochs(list(x)))
}

#' @rdname plot.tfmuster_history
#' @export
plot.tfmuster_values <- function(x, engine = NULL, ...) {
  plot(as_run(x), engine = engine, ...)
}

#' @rdname plot.tfmuster_history
#' @export
plot.tfmuster_runs <- function(x, engine = NULL, ...) {
  of_run <- function(name) {
    history <- as.data.frame(run_history(x[[name]]))
    cbind(history, run = rep(name, nrow(history)))
  }
  rows <- do.call(rbind, lapply(names(x), of_run))
  runs <- unique(rows$run)
  # Skip the first color, black.
  colours <- grDevices::palette.colors(length(runs) + 1, "Okabe-Ito", recycle = TRUE)[-1]
  draw_curves(rows, x, "run", rlang::set_names(colours, runs), engine, without_epochs(x))
}

# Why there is nothing to plot: the found and fix texts of the error.
without_epochs <- function(runs) {
  if (!length(runs)) {
    return(c("there are no runs", "run_list(folder = ...) lists those of another folder than `runs`."))
  }
  goes_on <- any(vapply(runs, function(run) run$goes_on, logical(1)))
  found <- if (length(runs) > 1) {
    paste(length(runs), "runs, none with a finished epoch")
  } else {
    then <- if (goes_on) ", and no epoch has ended" else ", and trained nothing"
    paste0("this run is ", run_status(runs[[1]])$state, then)
  }
  fix <- "The plot shows the epochs of fit() and train_mnist()."
  c(found, if (goes_on) "Wait until the first epoch of fit() has ended." else fix)
}

# Okabe and Ito's colors, which people with any color vision can distinguish; shapes and lines differ too.
curve_colours <- c(training = "#0072B2", validation = "#D55E00")
curve_shapes <- c(training = 16, validation = 17)
curve_lines <- c(training = "solid", validation = "dashed")

# Plot rows of a history, with one color per value of the column `by`. Returns a ggplot, or `whole` invisibly.
draw_curves <- function(rows, whole, by, colours, engine,
                        nothing = c("a history without an epoch", "Train for at least one epoch."),
                        call = rlang::caller_env()) {
  engine <- engine %||% if (rlang::is_installed("ggplot2")) "ggplot2" else "base"
  engine <- rlang::arg_match(engine, c("ggplot2", "base"), error_call = call)
  if (!length(rows$epoch)) {
    abort_tfmuster(list(
      kind = "data", message = "There is nothing to plot.", found = nothing[1], fix = nothing[2],
      reason = "empty"
    ), call)
  }
  if (engine == "base") {
    base_curves(rows, by, colours)
    return(invisible(whole))
  }
  rlang::check_installed("ggplot2", call = call)
  gg_curves(rows, by, colours)
}

# Guides of several scales are one legend only if they are equal. Names of runs are long, so list them in one
# column; what tells training from validation is then another legend, and only if there are both.
gg_guides <- function(rows, by) {
  if (by == "data") {
    one <- ggplot2::guide_legend(order = 1)
    return(list(colour = one, shape = one, linetype = one))
  }
  data <- if (length(unique(rows$data)) > 1) ggplot2::guide_legend(order = 2) else "none"
  list(colour = ggplot2::guide_legend(ncol = 1, order = 1), shape = data, linetype = data)
}

# Order the metrics: the loss first, the speed last.
order_metrics <- function(metrics) {
  metrics <- unique(metrics)
  metrics[order(metrics != "loss", metrics == "images_per_second")]
}

gg_curves <- function(rows, by, colours) {
  metrics <- order_metrics(rows$metric)
  guides <- gg_guides(rows, by)
  # Draw no lines with a single point: ggplot2 prints a message about each.
  points <- stats::ave(as.numeric(is.finite(rows$value)), rows$metric, rows[[by]], rows$data, FUN = sum)
  ggplot2::ggplot(rows, ggplot2::aes(.data$epoch, .data$value, colour = .data[[by]], linetype = .data$data)) +
    ggplot2::geom_line(
      ggplot2::aes(group = interaction(.data[[by]], .data$data)),
      data = rows[points > 1, ], na.rm = TRUE
    ) +
    ggplot2::geom_point(ggplot2::aes(shape = .data$data), na.rm = TRUE) +
    ggplot2::facet_wrap(
      ggplot2::vars(factor(.data$metric, metrics)),
      # In RStudio's plot pane, more than two panels in a column are not readable.
      ncol = if (length(metrics) > 2) 2 else 1, scales = "free_y"
    ) +
    ggplot2::scale_colour_manual(values = colours, name = NULL, guide = guides$colour) +
    ggplot2::scale_shape_manual(values = curve_shapes, name = NULL, guide = guides$shape) +
    ggplot2::scale_linetype_manual(values = curve_lines, name = NULL, guide = guides$linetype) +
    ggplot2::scale_x_continuous(breaks = function(limits) unique(round(pretty(limits)))) +
    ggplot2::labs(x = "epoch", y = NULL) +
    ggplot2::theme(legend.position = "bottom", legend.box = "horizontal", legend.margin = ggplot2::margin())
}

base_curves <- function(rows, by, colours) {
  metrics <- order_metrics(rows$metric)
  columns <- if (length(metrics) > 2) 2 else 1
  legend <- base_legend(rows, by, colours)
  # Names of runs are long, those of two data sets are short.
  side <- if (by == "data" || length(legend[[1]]) > 5) 2 else 1
  old <- graphics::par(
    mfrow = c(ceiling(length(metrics) / columns), columns), mar = c(4, 4, 1.5, 1),
    oma = c(ceiling(length(legend[[1]]) / side) + 0.5, 0, 0, 0)
  )
  on.exit(graphics::par(old))
  for (metric in metrics) {
    shown <- rows[rows$metric == metric & is.finite(rows$value), ]
    graphics::plot(shown$epoch, shown$value, type = "n", xlab = "epoch", ylab = metric, xaxt = "n")
    graphics::axis(1, unique(round(pretty(shown$epoch))))
    for (curve in split(shown, interaction(shown[[by]], shown$data, drop = TRUE))) {
      colour <- colours[[curve[[by]][1]]]
      data <- curve$data[1]
      graphics::lines(curve$epoch, curve$value, col = colour, lty = curve_lines[[data]])
      graphics::points(curve$epoch, curve$value, col = colour, pch = curve_shapes[[data]])
    }
  }
  # One legend, below all panels.
  graphics::par(fig = c(0, 1, 0, 1), oma = c(0, 0, 0, 0), mar = c(0, 0, 0, 0), new = TRUE)
  graphics::plot.new()
  rlang::inject(graphics::legend("bottom", !!!legend, bty = "n", ncol = side))
}

# The legend of base graphics: the curves as they are drawn and, of several runs, which data they are of.
base_legend <- function(shown, by, colours) {
  names <- unique(shown[[by]])
  if (by == "data") {
    return(list(names, col = colours[names], lty = curve_lines[names], pch = curve_shapes[names]))
  }
  data <- unique(shown$data)
  if (length(data) == 1) data <- character()
  list(
    c(names, data), col = c(colours[names], rep("black", length(data))),
    lty = c(rep("solid", length(names)), curve_lines[data]),
    pch = c(rep(NA, length(names)), curve_shapes[data])
  )
}
