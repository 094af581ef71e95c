import torch
import torch.nn as nn


class Model(nn.Module):
    """Which boxes, in order of their score, overlap no better one that is kept."""

    def __init__(self, threshold):
        super().__init__()
        self.threshold = threshold

    def forward(self, boxes):
        sides = boxes[:, 2:] - boxes[:, :2]
        area = sides.prod(1)
        low = torch.maximum(boxes[:, None, :2], boxes[None, :, :2])
        high = torch.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
        both = (high - low).clamp(min=0).prod(2)
        iou = both / (area[:, None] + area[None, :] - both)
        place = torch.arange(len(boxes), device=boxes.device)
        keep = torch.ones(len(boxes), dtype=torch.bool, device=boxes.device)
        for i in range(len(boxes)):
            keep = keep & ~(keep[i] & (iou[i] > self.threshold) & (place > i))
        return keep


def get_inputs():
    corner = torch.rand(22, 2) * 6
    return [torch.cat([corner, corner + 1 + 3 * torch.rand(22, 2)], 1)]


def get_init_inputs():
    return [0.3]

# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def nms_kernel(box_ptr, keep_ptr, count, threshold, BLOCK: tl.constexpr):
    j = tl.arange(0, BLOCK)
    inside = j < count
    x0 = tl.load(box_ptr + 4 * j, mask=inside, other=0.0)
    y0 = tl.load(box_ptr + 4 * j + 1, mask=inside, other=0.0)
    x1 = tl.load(box_ptr + 4 * j + 2, mask=inside, other=0.0)
    y1 = tl.load(box_ptr + 4 * j + 3, mask=inside, other=0.0)
    area = (x1 - x0) * (y1 - y0)
    keep = inside.to(tl.int32)
    for i in range(count):
        a0 = tl.load(box_ptr + 4 * i)
        b0 = tl.load(box_ptr + 4 * i + 1)
        a1 = tl.load(box_ptr + 4 * i + 2)
        b1 = tl.load(box_ptr + 4 * i + 3)
        width = tl.maximum(tl.minimum(a1, x1) - tl.maximum(a0, x0), 0.0)
        height = tl.maximum(tl.minimum(b1, y1) - tl.maximum(b0, y0), 0.0)
        both = width * height
        # No division: the union of two boxes is positive.
        overlaps = both > threshold * ((a1 - a0) * (b1 - b0) + area - both)
        alive = tl.sum(tl.where(j == i, keep, 0), axis=0)
        keep = tl.where(overlaps & (j > i) & (alive != 0), 0, keep)
    tl.store(keep_ptr + j, keep != 0, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, threshold):
        super().__init__()
        self.threshold = threshold

    def forward(self, boxes):
        boxes = boxes.contiguous()
        keep = torch.empty(boxes.shape[0], dtype=torch.bool, device=boxes.device)
        nms_kernel[(1,)](boxes, keep, boxes.shape[0], self.threshold, BLOCK=triton.next_power_of_2(boxes.shape[0]))
        return keep
