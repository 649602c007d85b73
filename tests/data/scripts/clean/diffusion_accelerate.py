"""A diffusion trainer with Accelerate: EMA, images logged on the main process, state saved by all."""

import os
import shutil

from accelerate import Accelerator


def log_validation(pipeline, accelerator, step):
    images = [pipeline(prompt) for prompt in ("a cat", "a dog")]
    for tracker in accelerator.trackers:
        tracker.log_images({"validation": images}, step=step)


def main(args):
    accelerator = Accelerator(log_with="tensorboard")
    unet, optimizer, loader = accelerator.prepare(*make(args))
    ema = make_ema(unet) if args.use_ema else None
    global_step = 0
    for _ in range(args.epochs):
        train_loss = 0.0
        for batch in loader:
            loss = step(unet, batch)
            avg_loss = accelerator.gather(loss.repeat(args.batch_size)).mean()
            train_loss += avg_loss.item()
            accelerator.backward(loss)
            optimizer.step()
            global_step += 1
            if global_step % args.checkpointing_steps == 0:
                if accelerator.is_main_process:
                    for old in sorted(os.listdir(args.output_dir))[:-3]:
                        shutil.rmtree(os.path.join(args.output_dir, old))
                accelerator.wait_for_everyone()
                accelerator.save_state(os.path.join(args.output_dir, f"checkpoint-{global_step}"))
        if accelerator.is_main_process and ema is not None:
            log_validation(make_pipeline(accelerator.unwrap_model(unet)), accelerator, global_step)
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        make_pipeline(accelerator.unwrap_model(unet)).save_pretrained(args.output_dir)
    accelerator.end_training()
