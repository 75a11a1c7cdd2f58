from . import flower
from .client import Client
from .packet import Packet, Refused
from .server import Server

__all__ = ["Client", "Packet", "Refused", "Server", "flower"]
