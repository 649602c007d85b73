"""A Lightning module: metrics synchronised by all ranks, images written on rank 0."""

import lightning.pytorch as pl
import torch
from lightning.pytorch.utilities import rank_zero_info, rank_zero_only


class Classifier(pl.LightningModule):
    def __init__(self, net):
        super().__init__()
        self.net = net
        self.outputs = []

    def training_step(self, batch, index):
        x, y = batch
        loss = torch.nn.functional.cross_entropy(self.net(x), y)
        self.log("train_loss", loss)
        if self.trainer.is_global_zero and index % 100 == 0:
            self.logger.experiment.add_image("input", x[0])
        return loss

    def validation_step(self, batch, index):
        x, y = batch
        correct = (self.net(x).argmax(-1) == y).float().mean()
        self.log("accuracy", correct, sync_dist=True)
        self.outputs.append(correct)

    def on_validation_epoch_end(self):
        gathered = self.all_gather(torch.stack(self.outputs))
        self.outputs.clear()
        if self.global_rank == 0:
            self.log("best", gathered.max(), rank_zero_only=True)
            self.write(gathered)

    @rank_zero_only
    def write(self, values):
        torch.save(values, "values.pt")


def main():
    trainer = pl.Trainer(accelerator="gpu", devices=8, num_nodes=2, strategy="ddp")
    trainer.fit(Classifier(build()), data())
    trainer.save_checkpoint("last.ckpt")
    rank_zero_info("done")
