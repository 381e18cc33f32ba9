"""What a training script imports to be a good citizen of an ElasticJob. It needs torch and nothing else.

A script that uses none of it trains elastically all the same: torchrun restarts it with a new world, it loads its last
checkpoint. What this package adds is that less is lost and more is known:

* :func:`checkpoint_wanted`, :func:`agree_on_checkpoint`, :func:`checkpointed`: a checkpoint just before a resize, so
  that no step is trained twice;
* :func:`report_progress`: step, samples and loss in the job's status; :func:`restored`: how long the way there took;
* :func:`round_info`: which round this is, of how many nodes and why;
* :class:`ElasticSampler`: each sample exactly once an epoch, however often the world changes within it, and
  :class:`Collate`, with which a ``DataLoader`` takes a share that is empty.

In a worker of an ElasticJob, importing it also makes an uncaught exception's traceback known to the job's status (as
torch's ``record`` does), and lets the agent have the worker's stacks written to the log when it hangs.

Under plain torchrun, with no ElasticJob agent around, all of it works and has no effect but the sampler's.
"""

from elasticjob_rendezvous.train import evidence
from elasticjob_rendezvous.train.agreeing import agree_on_checkpoint
from elasticjob_rendezvous.train.channel import (
    Channel,
    Notice,
    RoundInfo,
    checkpoint_wanted,
    checkpointed,
    report_progress,
    restored,
    round_info,
)
from elasticjob_rendezvous.train.collating import Collate
from elasticjob_rendezvous.train.sampler import ElasticSampler

evidence.install()

__all__ = [
    "Channel",
    "Collate",
    "ElasticSampler",
    "Notice",
    "RoundInfo",
    "agree_on_checkpoint",
    "checkpoint_wanted",
    "checkpointed",
    "report_progress",
    "restored",
    "round_info",
]
