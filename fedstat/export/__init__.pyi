from . import flower as flower
from .client import Client as Client
from .packet import Packet as Packet
from .packet import Refused as Refused
from .server import Server as Server
