"""Every family of layers, in a model that ends with Flatten and Dense."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
from keras import layers

from .registry import Result, add
from .training import integers, numbers, trained


def model_with(layer: Callable[[], Any], *shape: int) -> keras.Model:
    return keras.Sequential(
        [keras.Input(shape), layer(), layers.Flatten(), layers.Dense(1, kernel_initializer="he_normal")]
    )


def one_layer(name: str, shape: tuple[int, ...], layer: Callable[[], Any], **expected: Any) -> None:
    def run(folder: Path) -> Result:
        return trained(model_with(layer, *shape), numbers(*shape), numbers(1, seed=2))

    add(f"layer_{name}", run, **expected)


def adapted() -> Any:
    layer = layers.Normalization()
    layer.adapt(numbers(6, seed=4))
    return layer


LINE, IMAGE, VOLUME, FLAT = (8, 3), (8, 8, 2), (4, 4, 4, 2), (6,)
#: In color, as some augmentations need it.
IMAGE3 = (8, 8, 3)
for name, shape, layer in [
    ("dense", FLAT, lambda: layers.Dense(4, activation="gelu")),
    ("dense_regularized", FLAT, lambda: layers.Dense(4, kernel_regularizer="l2", bias_regularizer="l1")),
    ("dense_constrained", FLAT, lambda: layers.Dense(4, kernel_constraint=keras.constraints.MaxNorm(0.5))),
    ("activity_regularization", FLAT, lambda: layers.ActivityRegularization(0.01, 0.01)),
    ("einsum_dense", LINE, lambda: layers.EinsumDense("abc,cd->abd", (8, 4), bias_axes="d")),
    ("time_distributed", LINE, lambda: layers.TimeDistributed(layers.Dense(3))),
    ("conv_1d", LINE, lambda: layers.Conv1D(3, 3, activation="tanh")),
    ("conv_1d_causal", LINE, lambda: layers.Conv1D(3, 2, padding="causal", dilation_rate=2)),
    ("conv_2d", IMAGE, lambda: layers.Conv2D(3, 3, activation="tanh")),
    ("conv_2d_grouped", IMAGE, lambda: layers.Conv2D(4, 3, groups=2)),
    ("conv_2d_strided", IMAGE, lambda: layers.Conv2D(3, 3, strides=2, padding="same")),
    ("conv_3d", VOLUME, lambda: layers.Conv3D(2, 2)),
    ("conv_1d_transpose", LINE, lambda: layers.Conv1DTranspose(2, 3)),
    ("conv_2d_transpose", IMAGE, lambda: layers.Conv2DTranspose(2, 3)),
    ("conv_3d_transpose", VOLUME, lambda: layers.Conv3DTranspose(2, 2)),
    ("depthwise_conv_1d", LINE, lambda: layers.DepthwiseConv1D(3)),
    ("depthwise_conv_2d", IMAGE, lambda: layers.DepthwiseConv2D(3)),
    ("separable_conv_1d", LINE, lambda: layers.SeparableConv1D(3, 3)),
    ("separable_conv_2d", IMAGE, lambda: layers.SeparableConv2D(3, 3)),
    ("conv_lstm_1d", (3, 6, 2), lambda: layers.ConvLSTM1D(2, 3)),
    ("conv_lstm_2d", (3, 5, 5, 1), lambda: layers.ConvLSTM2D(2, 3)),
    ("conv_lstm_3d", (2, 3, 3, 3, 1), lambda: layers.ConvLSTM3D(2, 2)),
    ("max_pooling_1d", LINE, lambda: layers.MaxPooling1D(2)),
    ("max_pooling_2d", IMAGE, lambda: layers.MaxPooling2D(2)),
    ("max_pooling_3d", VOLUME, lambda: layers.MaxPooling3D(2)),
    ("average_pooling_1d", LINE, lambda: layers.AveragePooling1D(2)),
    ("average_pooling_2d", IMAGE, lambda: layers.AveragePooling2D(2)),
    ("average_pooling_3d", VOLUME, lambda: layers.AveragePooling3D(2)),
    ("global_max_pooling_1d", LINE, lambda: layers.GlobalMaxPooling1D()),
    ("global_max_pooling_2d", IMAGE, lambda: layers.GlobalMaxPooling2D()),
    ("global_max_pooling_3d", VOLUME, lambda: layers.GlobalMaxPooling3D()),
    ("global_average_pooling_2d", IMAGE, lambda: layers.GlobalAveragePooling2D()),
    ("global_average_pooling_3d", VOLUME, lambda: layers.GlobalAveragePooling3D()),
    ("adaptive_average_pooling_1d", LINE, lambda: layers.AdaptiveAveragePooling1D(2)),
    ("adaptive_average_pooling_2d", IMAGE, lambda: layers.AdaptiveAveragePooling2D(2)),
    ("adaptive_average_pooling_3d", VOLUME, lambda: layers.AdaptiveAveragePooling3D(2)),
    ("adaptive_max_pooling_1d", LINE, lambda: layers.AdaptiveMaxPooling1D(2)),
    ("adaptive_max_pooling_2d", IMAGE, lambda: layers.AdaptiveMaxPooling2D(2)),
    ("adaptive_max_pooling_3d", VOLUME, lambda: layers.AdaptiveMaxPooling3D(2)),
    ("lstm", LINE, lambda: layers.LSTM(4)),
    ("lstm_sequences", LINE, lambda: layers.LSTM(3, return_sequences=True, go_backwards=True)),
    ("lstm_unrolled", LINE, lambda: layers.LSTM(3, unroll=True)),
    ("gru", LINE, lambda: layers.GRU(4)),
    ("simple_rnn", LINE, lambda: layers.SimpleRNN(4)),
    ("bidirectional", LINE, lambda: layers.Bidirectional(layers.GRU(3))),
    ("stacked_rnn_cells", LINE, lambda: layers.RNN([layers.LSTMCell(3), layers.GRUCell(2)])),
    ("layer_normalization", LINE, lambda: layers.LayerNormalization()),
    ("group_normalization", IMAGE, lambda: layers.GroupNormalization(groups=1)),
    ("rms_normalization", LINE, lambda: layers.RMSNormalization()),
    ("unit_normalization", LINE, lambda: layers.UnitNormalization()),
    ("spectral_normalization", FLAT, lambda: layers.SpectralNormalization(layers.Dense(4))),
    ("prelu", FLAT, lambda: layers.PReLU()),
    ("leaky_relu", FLAT, lambda: layers.LeakyReLU()),
    ("elu", FLAT, lambda: layers.ELU()),
    ("relu", FLAT, lambda: layers.ReLU(negative_slope=0.1)),
    ("activation", FLAT, lambda: layers.Activation("swish")),
    ("identity", FLAT, lambda: layers.Identity()),
    ("softmax", FLAT, lambda: layers.Softmax()),
    ("lambda", FLAT, lambda: layers.Lambda(lambda x: keras.ops.sin(x) * 2)),
    ("masking", LINE, lambda: layers.Masking(0.0)),
    ("reshape", FLAT, lambda: layers.Reshape((2, 3))),
    ("permute", LINE, lambda: layers.Permute((2, 1))),
    ("repeat_vector", FLAT, lambda: layers.RepeatVector(2)),
    ("cropping_1d", LINE, lambda: layers.Cropping1D(1)),
    ("cropping_2d", IMAGE, lambda: layers.Cropping2D(1)),
    ("cropping_3d", VOLUME, lambda: layers.Cropping3D(1)),
    ("zero_padding_1d", LINE, lambda: layers.ZeroPadding1D(1)),
    ("zero_padding_2d", IMAGE, lambda: layers.ZeroPadding2D(1)),
    ("zero_padding_3d", VOLUME, lambda: layers.ZeroPadding3D(1)),
    ("up_sampling_1d", LINE, lambda: layers.UpSampling1D(2)),
    ("up_sampling_2d", IMAGE, lambda: layers.UpSampling2D(2)),
    ("up_sampling_3d", VOLUME, lambda: layers.UpSampling3D(2)),
    ("rescaling", IMAGE, lambda: layers.Rescaling(2.0, offset=-1)),
    ("resizing", IMAGE, lambda: layers.Resizing(4, 4)),
    ("center_crop", IMAGE, lambda: layers.CenterCrop(4, 4)),
    ("normalization", FLAT, adapted),
    ("mel_spectrogram", (300,), lambda: layers.MelSpectrogram(64, 32, num_mel_bins=8, sampling_rate=2000)),
    ("auto_contrast", IMAGE, lambda: layers.AutoContrast(value_range=(0, 1))),
    ("equalization", IMAGE3, lambda: layers.Equalization(value_range=(0, 1))),
    ("solarization", IMAGE, lambda: layers.Solarization(0.5, 0.5, value_range=(0, 1))),
    ("pipeline", IMAGE, lambda: layers.Pipeline([layers.Rescaling(2.0), layers.CenterCrop(4, 4)])),
    ("discretization", FLAT, lambda: layers.Discretization(bin_boundaries=[0.3, 0.6])),
]:
    one_layer(name, shape, layer)

# Random numbers: the workers draw those of the rows of the global batch.
for name, shape, layer in [
    ("dropout", FLAT, lambda: layers.Dropout(0.5)),
    ("spatial_dropout_1d", LINE, lambda: layers.SpatialDropout1D(0.5)),
    ("spatial_dropout_2d", IMAGE, lambda: layers.SpatialDropout2D(0.5)),
    ("spatial_dropout_3d", VOLUME, lambda: layers.SpatialDropout3D(0.5)),
    ("alpha_dropout", FLAT, lambda: layers.AlphaDropout(0.5)),
    ("gaussian_dropout", FLAT, lambda: layers.GaussianDropout(0.5)),
    ("gaussian_noise", FLAT, lambda: layers.GaussianNoise(0.5)),
    ("lstm_dropout", LINE, lambda: layers.LSTM(3, dropout=0.3, recurrent_dropout=0.3)),
    ("random_flip", IMAGE, lambda: layers.RandomFlip()),
    ("random_rotation", IMAGE, lambda: layers.RandomRotation(0.2)),
    ("random_zoom", IMAGE, lambda: layers.RandomZoom(0.2)),
    ("random_translation", IMAGE, lambda: layers.RandomTranslation(0.2, 0.2)),
    ("random_crop", IMAGE, lambda: layers.RandomCrop(8, 8)),
    ("random_brightness", IMAGE, lambda: layers.RandomBrightness(0.2, value_range=(0, 1))),
    ("random_contrast", IMAGE, lambda: layers.RandomContrast(0.5, value_range=(0, 1))),
    ("random_color_degeneration", IMAGE3, lambda: layers.RandomColorDegeneration(0.5, value_range=(0, 1))),
    (
        "random_color_jitter",
        IMAGE3,
        lambda: layers.RandomColorJitter((0, 1), 0.2, 0.2, (0.2, 0.6), 0.2),
    ),
    ("random_erasing", IMAGE3, lambda: layers.RandomErasing(1.0, value_range=(0, 1))),
    ("random_gaussian_blur", IMAGE3, lambda: layers.RandomGaussianBlur(1.0, value_range=(0, 1))),
    ("random_grayscale", IMAGE3, lambda: layers.RandomGrayscale(0.5)),
    ("random_hue", IMAGE3, lambda: layers.RandomHue(0.3, value_range=(0, 1))),
    ("random_invert", IMAGE3, lambda: layers.RandomInvert(0.5, value_range=(0, 1))),
    ("random_perspective", IMAGE3, lambda: layers.RandomPerspective(1.0)),
    ("random_posterization", IMAGE3, lambda: layers.RandomPosterization(4, value_range=(0, 1))),
    ("random_saturation", IMAGE3, lambda: layers.RandomSaturation((0.2, 0.6), value_range=(0, 1))),
    ("random_sharpness", IMAGE3, lambda: layers.RandomSharpness(0.5, value_range=(0, 1))),
    ("random_shear", IMAGE3, lambda: layers.RandomShear(0.3, 0.3)),
]:
    one_layer(name, shape, layer)


one_layer(
    "aug_mix",
    IMAGE3,
    lambda: layers.AugMix(value_range=(0, 1)),
    differs="Keras chooses its operations by Python's random module while it traces.",
)


def whole_batches(name: str, layer: Callable[[], Any]) -> None:
    """Train without a smaller last batch, in which some layers have other random numbers."""

    def run(folder: Path) -> Result:
        x, y = numbers(*IMAGE3, rows=32), numbers(1, rows=32, seed=2)
        return trained(model_with(layer, *IMAGE3), x, y, optimizer=keras.optimizers.SGD(0.01))

    add(f"layer_{name}", run)


whole_batches("equalization_of_a_batch", lambda: layers.Equalization(value_range=(0, 1)))
whole_batches("rand_augment", lambda: layers.RandAugment(value_range=(0, 1)))
whole_batches("random_elastic_transform", lambda: layers.RandomElasticTransform(1.0, 0.5, value_range=(0, 1)))


def several_inputs(name: str, join: Callable[[Any, Any], Any], *shape: int, **expected: Any) -> None:
    def run(folder: Path) -> Result:
        a, b = keras.Input(shape), keras.Input(shape)
        hidden = layers.Dense(shape[-1])
        outputs = layers.Dense(1)(layers.Flatten()(join(hidden(a), b)))
        model = keras.Model([a, b], outputs)
        return trained(model, [numbers(*shape), numbers(*shape, seed=3)], numbers(1, seed=2))

    add(f"layer_{name}", run, **expected)


for name, shape, join in [
    ("add", FLAT, lambda a, b: layers.Add()([a, b])),
    ("subtract", FLAT, lambda a, b: layers.Subtract()([a, b])),
    ("multiply", FLAT, lambda a, b: layers.Multiply()([a, b])),
    ("average", FLAT, lambda a, b: layers.Average()([a, b])),
    ("maximum", FLAT, lambda a, b: layers.Maximum()([a, b])),
    ("minimum", FLAT, lambda a, b: layers.Minimum()([a, b])),
    ("concatenate", FLAT, lambda a, b: layers.Concatenate()([a, b])),
    ("dot", FLAT, lambda a, b: layers.Dot(1)([a, b])),
    ("attention", LINE, lambda a, b: layers.Attention()([a, b])),
    ("additive_attention", LINE, lambda a, b: layers.AdditiveAttention()([a, b])),
    ("multi_head_attention", LINE, lambda a, b: layers.MultiHeadAttention(2, 3)(a, b)),
    ("group_query_attention", LINE, lambda a, b: layers.GroupQueryAttention(3, 2, 1)(a, b)),
]:
    several_inputs(name, join, *shape)


def reversible() -> list[Any]:
    """An embedding, and the same weights as the layer that predicts words."""
    words = layers.ReversibleEmbedding(30, 4)
    return [words, layers.Dense(4, "tanh"), layers.Lambda(lambda x: words(x, reverse=True))]


def on_tokens(name: str, hidden: Callable[[], list[Any]], **expected: Any) -> None:
    def run(folder: Path) -> Result:
        model = keras.Sequential([keras.Input((7,)), *hidden(), layers.Dense(1)])
        return trained(model, integers(30, 7), numbers(1, seed=2))

    add(f"layer_{name}", run, **expected)


for name, hidden in [
    ("embedding", lambda: [layers.Embedding(30, 4), layers.GlobalAveragePooling1D()]),
    ("embedding_masked", lambda: [layers.Embedding(30, 4, mask_zero=True), layers.LSTM(3)]),
    (
        "embedding_masked_mean",
        lambda: [layers.Embedding(30, 4, mask_zero=True), layers.GlobalAveragePooling1D()],
    ),
    ("embedding_lora", lambda: [layers.Embedding(30, 4, lora_rank=2), layers.Flatten()]),
    ("category_encoding", lambda: [layers.CategoryEncoding(30, output_mode="multi_hot")]),
    ("hashing", lambda: [layers.Hashing(8), layers.Embedding(8, 3), layers.Flatten()]),
    (
        "integer_lookup",
        lambda: [
            layers.IntegerLookup(vocabulary=list(range(20))),
            layers.Embedding(30, 3),
            layers.Flatten(),
        ],
    ),
    ("reversible_embedding", lambda: [*reversible(), layers.GlobalAveragePooling1D()]),
]:
    on_tokens(name, hidden)


def hashed_crossing(folder: Path) -> Result:
    a, b = keras.Input((), dtype="int32"), keras.Input((), dtype="int32")
    crossed = layers.HashedCrossing(8, output_mode="one_hot")((a, b))
    model = keras.Model([a, b], layers.Dense(1)(crossed))
    return trained(
        model, [integers(5).astype("int32"), integers(7, seed=3).astype("int32")], numbers(1, seed=2)
    )


add("layer_hashed_crossing", hashed_crossing)
