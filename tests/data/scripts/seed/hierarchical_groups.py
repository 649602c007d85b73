"""Groups inside and between hosts, as literal numbers; the use of a group by its members is right."""

import torch.distributed as dist

ranks = [0, 1, 2, 3]
group = dist.new_group(ranks)
if dist.get_rank() in ranks:
    dist.all_reduce(tensor, group=group)

intra_node_group = dist.new_group([0, 1, 2, 3])
inter_node_group = dist.new_group([0, 4])
