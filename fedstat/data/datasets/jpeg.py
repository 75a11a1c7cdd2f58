"""Decode JPEG images of one known size."""

from __future__ import annotations

import io

import numpy as np


def decode_jpeg(raw: bytes, name: str, side: int) -> np.ndarray:
    """Return the colours of a square JPEG as bytes, (3, side, side); a grey one has three equal planes.

    Anything but a complete JPEG of that size is a ValueError that blames the file `name`.
    """
    from PIL.JpegImagePlugin import JpegImageFile

    try:
        with JpegImageFile(io.BytesIO(raw)) as image:
            if image.size != (side, side):  # Pillow knows the size before it decodes anything
                raise ValueError(f"it has {image.size[0]}x{image.size[1]} pixels")
            return np.asarray(image.convert("RGB")).transpose(2, 0, 1)
    except (OSError, ValueError, SyntaxError) as error:  # Pillow raises a SyntaxError for broken headers
        raise ValueError(f"{name} is no JPEG image of {side}x{side} pixels: {error}.") from None
