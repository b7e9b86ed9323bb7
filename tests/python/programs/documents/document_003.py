"""Document 003: shortened to 2 epochs of 5 steps, with MNIST from a local file."""

import os
import argparse
import json
import tensorflow as tf
from tensorflow.keras.layers import Dense, Flatten, Conv2D, MaxPooling2D
import numpy as np
import local_mnist

parser = argparse.ArgumentParser(description='Distributed MNIST Argument Parser')
parser.add_argument('--index', required=True, help='index of the worker')
args = parser.parse_args()

os.environ["TF_CONFIG"] = json.dumps({
    "cluster": {"worker": ["localhost:5050", "localhost:5051"]},
   "task": {"type": "worker", "index": args.index}})

strategy = tf.distribute.experimental.MultiWorkerMirroredStrategy()
datasets = local_mnist.load()

def scale(image, label):
	image = tf.cast(image, tf.float32)
	image /= 255
	return image, label

NUM_WORKERS = 2
GLOBAL_BATCH_SIZE = 50 * NUM_WORKERS # each worker will get 50 images in every batch

options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA

train_dataset = datasets['train'].map(scale).repeat().shuffle(1000).batch(GLOBAL_BATCH_SIZE)
train_dataset = train_dataset.with_options(options)

def cnn_model():
	model = tf.keras.Sequential()
	model.add(Conv2D(32, kernel_size=(3,3), activation='relu',input_shape=(28, 28, 1)))
	model.add(Conv2D(64, kernel_size=(3,3), activation='relu'))
	model.add(MaxPooling2D(pool_size=(2,2)))
	model.add(Flatten())
	model.add(Dense(64, activation='relu'))
	model.add(Dense(10, activation='softmax'))

	model.compile(
		loss=tf.keras.losses.sparse_categorical_crossentropy,
		optimizer=tf.keras.optimizers.Adam(learning_rate=0.001, amsgrad=True),
		metrics=['accuracy'])
	return model

with strategy.scope():
	multi_worker_model = cnn_model()

multi_worker_model.summary()
multi_history = multi_worker_model.fit(x=train_dataset, epochs=2, steps_per_epoch=5)
