"""The networks of examples/training/models.h, layer by layer, for peers.py."""


def lenet(torch):
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(1, 20, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, 10))


def resnet18(torch, classes=1000):
    """torchvision.models.resnet18(), which need not be installed."""
    nn = torch.nn

    def convolution(inputs, channels, kernel, stride):
        return [nn.Conv2d(inputs, channels, kernel, stride, kernel // 2, bias=False),
                nn.BatchNorm2d(channels)]

    class Block(nn.Module):
        def __init__(self, inputs, channels, stride):
            super().__init__()
            self.body = nn.Sequential(
                *convolution(inputs, channels, 3, stride), nn.ReLU(inplace=True),
                *convolution(channels, channels, 3, 1))
            self.shortcut = nn.Sequential(*(
                convolution(inputs, channels, 1, stride) if inputs != channels else []))

        def forward(self, x):
            return torch.relu_(self.body(x) + self.shortcut(x))

    layers = [*convolution(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for channels in (64, 128, 256, 512):
        layers += [Block(inputs, channels, 1 if channels == 64 else 2),
                   Block(channels, channels, 1)]
        inputs = channels
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, classes))


def mxnet_lenet(mx, n):
    """A step of it in Gluon, hybridized and static."""
    nn = mx.gluon.nn
    net = nn.HybridSequential()
    net.add(nn.Conv2D(20, 5, activation="relu"), nn.MaxPool2D(2, 2),
            nn.Conv2D(50, 5, activation="relu"), nn.MaxPool2D(2, 2), nn.Flatten(),
            nn.Dense(500, activation="relu"), nn.Dense(10))
    net.initialize(mx.init.Xavier())
    net.hybridize(static_alloc=True, static_shape=True)
    loss_fn = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    loss_fn.hybridize(static_alloc=True, static_shape=True)
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd",
                               {"learning_rate": 0.01, "momentum": 0.9})
    image = mx.nd.random.uniform(shape=(n, 1, 28, 28))
    label = mx.nd.random.randint(0, 10, shape=(n,)).astype("float32")

    def step():
        with mx.autograd.record():
            loss = loss_fn(net(image), label)
        loss.backward()
        trainer.step(n)

    return step
