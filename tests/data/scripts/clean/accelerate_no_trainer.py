"""Fine-tuning with Accelerate and a loop of one's own."""

from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader


def main(args):
    accelerator = Accelerator(gradient_accumulation_steps=args.accumulate)
    set_seed(args.seed)
    if accelerator.is_main_process:
        make_repository(args.output_dir)
    accelerator.wait_for_everyone()
    with accelerator.main_process_first():
        dataset = tokenize(args)
    loader = DataLoader(dataset, shuffle=True, batch_size=args.batch_size)
    model, optimizer, loader = accelerator.prepare(build(), make_optimizer(), loader)
    for epoch in range(args.epochs):
        total_loss = 0
        for step, batch in enumerate(loader):
            with accelerator.accumulate(model):
                loss = model(**batch).loss
                total_loss += loss.detach().float()
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
            if step % args.checkpointing_steps == 0 and accelerator.sync_gradients:
                accelerator.save_state(f"step_{step}")
        losses = []
        for batch in eval_loader(args):
            outputs = model(**batch)
            losses.append(accelerator.gather_for_metrics(outputs.loss.repeat(args.batch_size)))
        if accelerator.is_main_process:
            print(f"epoch {epoch}: {sum(map(float, losses))}")
    accelerator.wait_for_everyone()
    unwrapped = accelerator.unwrap_model(model)
    unwrapped.save_pretrained(
        args.output_dir, is_main_process=accelerator.is_main_process, save_function=accelerator.save
    )
    accelerator.end_training()
