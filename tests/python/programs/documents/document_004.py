"""Document 004 in Python: several strategies in one program, and a model that gets its layers in the scope."""

import tensorflow as tf

strategy = {}

strategy["mirrored"] = tf.compat.v1.distribute.MirroredStrategy()
strategy["central_storage"] = tf.distribute.experimental.CentralStorageStrategy()
strategy["multiworker_mirrored"] = tf.distribute.experimental.MultiWorkerMirroredStrategy()
# Left out: ParameterServerStrategy(), which needs tasks of another kind and a resolver.

mnist = tf.keras.datasets.mnist.load_data()
x_train, y_train = mnist[0]

x_train = x_train.reshape((len(x_train), 784))
x_train = x_train / 255

y_train = tf.keras.utils.to_categorical(y_train, 10)

model = tf.keras.Sequential()
with strategy["multiworker_mirrored"].scope():
    model.add(tf.keras.layers.Dense(256, activation="relu", input_shape=(784,)))
    model.add(tf.keras.layers.Dropout(0.4))
    model.add(tf.keras.layers.Dense(128, activation="relu"))
    model.add(tf.keras.layers.Dropout(0.3))
    model.add(tf.keras.layers.Dense(10, activation="softmax"))

model.compile(loss="categorical_crossentropy", optimizer=tf.keras.optimizers.RMSprop(), metrics=["accuracy"])

history = model.fit(x_train, y_train, epochs=3, batch_size=128, validation_split=0.2)

for name, made in strategy.items():
    print(name, made.num_replicas_in_sync, flush=True)
