"""The over-provisioning lab: can a task be learnt with as few heads as suffice to keep it?

Small models are trained on a task whose parts are countable: at each position the target is made of the symbols at k
fixed distances back, so that a distance that no head serves costs one whole symbol (one bit with two symbols).
"""

from headlens.lab.specs import After, Architecture, RunSpec, Task, Training

__all__ = ["After", "Architecture", "RunSpec", "Task", "Training"]
